// Ways to deploy an app's first code: git, Wrangler, a template, or a Git URL.
import { signal } from '@preact/signals';
import { api, type Result } from '../api.ts';
import { resource } from '../live.ts';
import { session } from '../session.ts';

type Remote = Result<'git.remote'>;

/** Returns commands to paste. @param key the API key in them; null: a placeholder */
export function commands({ url, url_with_key }: Remote, slug: string, api: string, key: string | null) {
  const shownKey = key ?? '<API key>';
  const remote = key === null ? url : url_with_key.replace('<API_KEY>', key);
  return {
    git: [`git remote add cellar ${remote}`, 'git push cellar HEAD:main'].join('\n'),
    wrangler: [
      `export CLOUDFLARE_API_BASE_URL=${api}/client/v4`,
      `export CLOUDFLARE_API_TOKEN=${shownKey}`,
      `npx wrangler deploy --name ${slug}`,
    ].join('\n'),
  };
}

export function startModel(slug: string) {
  const remote = resource((signal) => api('git.remote', { id: slug }, { signal }));
  const templates = resource(async (signal) => (await api('apps.templates', {}, { signal })).items);
  const key = signal<string | null>(null);
  return {
    remote,
    templates,
    key,
    /** Creates an API key for the commands. The key cannot be read again. */
    async makeKey() {
      const account = session.peek()!.account.id;
      key.value = (await api('keys.create', { account, name: `for ${slug}` })).key;
    },
    /** @returns the deploy's id */
    async fromTemplate(template: string): Promise<string> {
      const name = template as 'hello';
      return (await api('source.template', { id: slug, template: name })).deploy_id;
    },
    /** @returns the deploy's id */
    async fromAddress(url: string): Promise<string> {
      return (await api('source.import', { id: slug, url })).deploy_id;
    },
    close() {
      remote.close();
      templates.close();
    },
  };
}
