// Calls about people between the control UI's server and the API. Pure values and types: the host imports them too.

/** Minimum characters of a password. */
export const PASSWORD_MIN = 10;
/** Maximum characters of a password. */
export const PASSWORD_MAX = 200;

/** Names the account for which a call is made. Valid only together with the runner token. */
export const ACCOUNT_HEADER = 'x-cellar-account';

/** The signed-in person, as shown to the browser. */
export interface SignedIn {
  id: string;
  name: string;
  email: string;
  /** `guest`: was invited to an app, and owns none. */
  role: 'admin' | 'member' | 'guest';
}

/** The purpose of a link, as shown to the person who opens it. */
export interface LinkPurpose {
  /** `welcome`: the link of the first start. `account`: sets an account's password. `invite`: creates an account. */
  kind: 'welcome' | 'account' | 'invite';
  /** The current or future role of the account on this machine. */
  role: 'admin' | 'member' | 'guest';
  /** The app that the link gives a role on, if any. */
  app: { slug: string; role: 'view' | 'push' | 'admin' } | null;
  /** The account's name; null: the person who uses the link enters it. */
  name: string | null;
  /** The account's e-mail address; null: the person who uses the link enters it. */
  email: string | null;
  /** Whether the address cannot be changed: it is the account's, or the invite's. */
  email_fixed: boolean;
  /** Time at which the link expires. Null: the link works until it is used. */
  expires_at: string | null;
}

/** `POST /internal/sign-in/*`: inputs and answers. Each request carries the host's secret. */
export interface SignInCalls {
  /** Returns an account. @throws `account_not_found` */
  account: { input: { id: string }; answer: SignedIn };
  /** Returns the purpose of a link. @throws `invite_not_found` */
  look: { input: { token: string }; answer: LinkPurpose };
  /**
   * Returns the account of a link. Creates the account if needed. May be repeated. `keeps_factors`: whether the account
   * keeps its second factor and passkeys.
   * @throws `invite_not_found`, `email_taken`, `invalid_input`
   */
  claim: {
    input: { token: string; name: string; email: string };
    answer: SignedIn & { keeps_factors: boolean };
  };
  /** Mails a password link to the account with this address. The answer does not reveal whether the account exists. */
  forgot: { input: { email: string }; answer: null };
  /**
   * Applies an invite to an existing account, and ends the link. `address`: the client's IP address, for the audit log.
   * @throws `invite_not_found`
   */
  join: { input: { token: string; account: string; address: string }; answer: { app: string | null } };
  /**
   * Returns the account of a person whom the identity provider has signed in. A new person gets the account with the same
   * address, or a new account. `account`: the account that the person had before; null for a new person. `role`: from the
   * person's groups; null: does not change.
   * @throws `forbidden` for a new person whose address the provider has not verified
   */
  arrive: {
    input: {
      account: string | null;
      email: string;
      verified: boolean;
      name: string;
      role: 'admin' | 'member' | 'guest' | null;
    };
    /**
     * `drops_credentials`: whether a new person got an account whose e-mail address nobody had verified. Then another person,
     * such as a guest's inviter, may have set its password, so the caller must delete it.
     */
    answer: SignedIn & { drops_credentials: boolean };
  };
  /** Writes a sign-in to the audit log. `by`: the route of better-auth. `address`: the client's IP address. */
  signed_in: { input: { account: string; by: string; address: string }; answer: null };
  /**
   * Writes a refused sign-in to the audit log. Each account has a daily limit; all sign-ins without an account share one limit.
   * `account`, or else `email`, names the account. `code`: the reason.
   */
  refused: {
    input: { account: string | null; email: string | null; by: string; address: string; code: string };
    answer: null;
  };
  /** Ends the link that an account has used. */
  close: { input: { token: string; account: string; address: string }; answer: null };
}
