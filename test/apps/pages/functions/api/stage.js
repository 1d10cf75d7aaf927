export const onRequest = ({ env }) => Response.json({ stage: env.STAGE });
