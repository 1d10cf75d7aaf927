export const onRequest: PagesFunction = async ({ next }) => {
  const response = await next();
  response.headers.set('x-middleware', 'api');
  return response;
};
