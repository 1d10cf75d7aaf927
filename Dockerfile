# Cellar in a container. docs/containers.md says how to run it.
FROM node:26-slim
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates caddy git nftables tini \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/cellar
# By themselves, so that an upgrade with the same packages shares their layer.
COPY package.json package-lock.json ./
COPY scripts/install.mjs scripts/
RUN node scripts/install.mjs && rm -rf /root/.npm
COPY . .
ENV RUNNER_DATA_DIR=/data npm_config_update_notifier=false
VOLUME /data
# It takes in what builds leave running, which npm does not.
ENTRYPOINT ["tini", "--"]
# With CAP_SYS_ADMIN the container may write to its own control groups from then on; without, Cellar says what that means.
CMD ["sh", "-c", "mount -o remount,bind,rw /sys/fs/cgroup 2> /dev/null; exec npm start"]
