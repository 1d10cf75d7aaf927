// Project templates for new apps. Their files are in `templates/`, each in the folder of its name.

export interface Template {
  name: string;
  title: string;
  /** One sentence: what it is, and which features of Workers it shows. */
  description: string;
}

export const templates = [
  {
    name: 'hello',
    title: 'Hello Worker',
    description: 'A Worker in one file that answers requests and logs them.',
  },
  { name: 'site', title: 'Static site', description: 'Pages and a style sheet, served as they are.' },
  {
    name: 'guestbook',
    title: 'Guestbook',
    description: 'A form and a list, kept in a D1 database with a migration.',
  },
  {
    name: 'chat',
    title: 'Chat room',
    description: 'Messages over WebSockets, kept by a Durable Object.',
  },
] as const satisfies readonly Template[];
