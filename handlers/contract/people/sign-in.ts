// What the control UI's server and the API say to each other about people. Pure values and types: the host imports them too.

/** Fewest and most characters of a password. */
export const PASSWORD_MIN = 10;
export const PASSWORD_MAX = 200;

/** Names the account that a call is made for. It counts only beside the runner token. */
export const ACCOUNT_HEADER = 'x-cellar-account';

/** Who is signed in, as a browser is told. */
export interface SignedIn {
  id: string;
  name: string;
  email: string;
  /** `guest`: was invited to an app, and owns none. */
  role: 'admin' | 'member' | 'guest';
}

/** The purpose of a link, as the person who opens it is told. */
export interface LinkPurpose {
  /** `welcome`: the first start's. `account`: sets the password of an account. `invite`: makes an account. */
  kind: 'welcome' | 'account' | 'invite';
  /** What the account is, or will be, on this machine. */
  role: 'admin' | 'member' | 'guest';
  /** The app that the link gives a role on, if any. */
  app: { slug: string; role: 'view' | 'push' | 'admin' } | null;
  /** Null: the person who uses the link says it. */
  name: string | null;
  email: string | null;
  /** Whether the address is the account's already, or that of an app's invite, and stays. */
  email_fixed: boolean;
  /** Null: when it is used. */
  expires_at: string | null;
}

/** `POST /internal/sign-in/*`: the questions and answers. Each question comes with the host's secret. */
export interface SignInCalls {
  /** Who an account is. @throws `account_not_found` */
  account: { input: { id: string }; answer: SignedIn };
  /** What a link is for. @throws `invite_not_found` */
  look: { input: { token: string }; answer: LinkPurpose };
  /**
   * Gives the link its account; may be done again. `keeps_factors`: the second factor and passkeys of the account stay.
   * @throws `invite_not_found`, `email_taken`, `invalid_input`
   */
  claim: {
    input: { token: string; name: string; email: string };
    answer: SignedIn & { keeps_factors: boolean };
  };
  /** Has a link for a new password sent to the account with this address. The answer does not tell whether there is one. */
  forgot: { input: { email: string }; answer: null };
  /**
   * Gives an account that there is what the link of an invite has to give, and ends it.
   * @throws `invite_not_found`
   */
  join: { input: { token: string; account: string }; answer: { app: string | null } };
  /** Ends the link. */
  close: { input: { token: string }; answer: null };
}
