// Project templates for new apps. Their files are in `templates/`, each in the folder of its name.

export interface Template {
  name: string;
  title: string;
  /** One sentence that describes the app, and names the features of Workers that the app uses. */
  description: string;
}

export const templates = [
  {
    name: 'list',
    title: 'Shared list',
    description: 'A to-do list in a D1 database that changes on all open pages at once.',
  },
  {
    name: 'links',
    title: 'Link shortener',
    description: 'Short addresses that lead to long ones, kept in a KV namespace.',
  },
  {
    name: 'drop',
    title: 'File drop',
    description: 'A page to drop files on and to download them from, kept in an R2 bucket.',
  },
  {
    name: 'ai',
    title: 'AI chat',
    description: 'A chat with a language model of this Cellar. Answers appear while the model writes them.',
  },
  {
    name: 'react',
    title: 'Full-stack React app',
    description: 'A poll: React and Vite for the page, a Worker with a D1 database behind it.',
  },
  {
    name: 'chat',
    title: 'Chat room',
    description: 'Messages over WebSockets, kept by a Durable Object.',
  },
  {
    name: 'guestbook',
    title: 'Guestbook',
    description: 'A form and a list, kept in a D1 database with a migration.',
  },
  { name: 'site', title: 'Static site', description: 'Pages and a style sheet, served as they are.' },
  {
    name: 'hello',
    title: 'Hello Worker',
    description: 'A Worker in one file that answers requests and logs them.',
  },
] as const satisfies readonly Template[];
