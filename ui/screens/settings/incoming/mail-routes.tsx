// E-mail addresses of an app, and the records in DNS that they need.
import { useState } from 'preact/hooks';
import { mailDomains, mailModel } from '../../../models/settings.ts';
import { Code } from '../../../parts/code/code.tsx';
import { Button, RemoveButton } from '../../../parts/controls/button.tsx';
import { TextField } from '../../../parts/controls/field.tsx';
import { useSubmit } from '../../../parts/controls/submit.ts';
import { IconCircleAlert, IconMail } from '../../../parts/icons.tsx';
import { useModel } from '../../../parts/model.ts';
import { Empty, Notice } from '../../../parts/status/states.tsx';
import { Time } from '../../../parts/status/time.tsx';
import { toast } from '../../../parts/status/toast.tsx';
import { List, remove } from '../../../parts/tables/pages.tsx';
import { baseDomain, isLocal, session } from '../../../session.ts';

export function MailRoutes({ app }: { app: string }) {
  const model = useModel(() => mailModel(app));
  const { routes } = model;
  const [given, setGiven] = useState('');
  const { busy, onSubmit } = useSubmit(async () => {
    const { address } = await model.set(given);
    toast(`The app gets the messages to ${address}`);
    setGiven('');
  });
  return (
    <section class="panel" aria-label="E-mail addresses">
      <header>
        <form class="row grow" onSubmit={onSubmit}>
          <div class="domain-field">
            <TextField
              label="Address"
              unlabelled
              placeholder={`info@${app}.${baseDomain.value}`}
              value={given}
              onValue={setGiven}
              required
              spellcheck={false}
              autocomplete="off"
            />
          </div>
          <Button needs="admin" type="submit" disabled={busy || given === ''}>
            Add this address
          </Button>
        </form>
      </header>
      <List
        of={routes}
        empty={
          <Empty title="No e-mail address" icon={IconMail}>
            <p>
              Add one at a domain of the app, or <code>*@…</code> for all others. The app's{' '}
              <code>email()</code> handler gets the messages.{' '}
              <a href="/docs/mail" target="_blank" rel="noreferrer">
                Receiving e-mail
              </a>
            </p>
          </Empty>
        }
      >
        {(items) => (
          <>
            <ul>
              {items.map((route) => (
                <li key={route.address} class="domain">
                  <div class="row apart">
                    <span class="strong">{route.address}</span>
                    <span class="row-actions">
                      <RemoveButton
                        needs="admin"
                        label={`Remove ${route.address}`}
                        onClick={() =>
                          remove(routes, route, `${route.address} is removed`, () =>
                            model.remove(route.address),
                          )
                        }
                      />
                    </span>
                  </div>
                  <p class="muted">
                    added <Time at={route.created_at} />
                  </p>
                </li>
              ))}
            </ul>
            {!session.value!.receives_mail && (
              <Notice icon={IconCircleAlert}>
                <p>
                  This Cellar receives no e-mails yet: its operator sets <code>RUNNER_MAIL_PORT</code>.
                </p>
              </Notice>
            )}
            {!isLocal.value && <Records domains={mailDomains(items, baseDomain.value)} />}
          </>
        )}
      </List>
    </section>
  );
}

function Records({ domains }: { domains: string[] }) {
  if (domains.length === 0) return null;
  return (
    <div class="body stack tight">
      <p class="muted">
        Set this record where you manage the domain. If the app forwards or replies, the SPF record of the
        domain has to name the mail server of this machine too, such as{' '}
        <code>v=spf1 include:mail.example.net ~all</code>. Its operator knows the name.
      </p>
      {domains.map((domain) => (
        <Code
          key={domain}
          text={`${domain}.  MX  10 ${baseDomain.value}.`}
          label={`Copy the record of ${domain}`}
        />
      ))}
    </div>
  );
}
