// Custom hostnames of an app: their DNS and certificates. Also its e-mail addresses and TCP ports.
import { useState } from 'preact/hooks';
import { Failure } from '../../api.ts';
import { Head } from '../../layout/head.tsx';
import { type Domain, type DomainState, domainsModel, publicAddress } from '../../models/settings.ts';
import { Code, Copy } from '../../parts/code/code.tsx';
import { Button, RemoveButton } from '../../parts/controls/button.tsx';
import { TextField } from '../../parts/controls/field.tsx';
import { useSubmit } from '../../parts/controls/submit.ts';
import { exactTime } from '../../parts/format.ts';
import { IconCircleAlert, IconExternalLink, IconGlobe, IconRefreshCw } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty, Notice, Skeleton } from '../../parts/status/states.tsx';
import { Status } from '../../parts/status/status.tsx';
import { Time } from '../../parts/status/time.tsx';
import { toast } from '../../parts/status/toast.tsx';
import { List, remove } from '../../parts/tables/pages.tsx';
import { isLocal, session } from '../../session.ts';
import { MailRoutes } from './incoming/mail-routes.tsx';
import { TcpPorts } from './incoming/tcp-ports.tsx';

export default function Domains({ app }: { app: string }) {
  const model = useModel(() => domainsModel(app));
  const { domains, checks } = model;
  const [hostname, setHostname] = useState('');
  const { busy, onSubmit } = useSubmit(async () => {
    const { hostname: name, state } = await model.add(hostname);
    const done = isLocal.value ? 'answers on this machine' : 'is served';
    toast(`${name} ${state === 'active' ? done : 'is added, and waits for its DNS'}`);
    setHostname('');
  });
  const own = session.value?.urls.app.replace('{slug}', app) ?? '';
  return (
    <>
      <Head
        title="Domains"
        about={
          isLocal.value
            ? 'The app answers at its own address, on this machine only.'
            : 'The app answers at its own address, and at each hostname that you add here and point to this machine.'
        }
      />
      <div class="stack">
        <div class="panel">
          <div class="body row">
            <IconGlobe />
            <a href={own} target="_blank" rel="noreferrer" class="mono">
              {own}
            </a>
            <Copy text={own} label="Copy the address" short />
            <span class="muted">always there</span>
          </div>
        </div>
        {isLocal.value && (
          <Notice icon={IconCircleAlert}>
            <p>
              This Cellar runs on <code>localhost</code>: no domain can lead here, and nothing gets a
              certificate. A hostname that you add answers only requests from this machine that name it, such
              as <code>curl -H "host: shop.example.com" {own.replace(app, '').replace('//.', '//')}</code>.{' '}
              <a href="/docs/operations#on-a-server" target="_blank" rel="noreferrer">
                Run Cellar on a server
              </a>{' '}
              to use domains.
            </p>
          </Notice>
        )}
        <section class="panel" aria-label="Domains">
          <header>
            <form class="row grow" onSubmit={onSubmit}>
              <div class="domain-field">
                <TextField
                  label="Hostname"
                  unlabelled
                  placeholder="shop.example.com"
                  value={hostname}
                  onValue={setHostname}
                  required
                  spellcheck={false}
                  autocomplete="off"
                />
              </div>
              <Button needs="admin" type="submit" look="primary" disabled={busy || hostname === ''}>
                Add this domain
              </Button>
            </form>
          </header>
          <List
            of={domains}
            empty={
              <Empty title="No domain of your own" icon={IconGlobe}>
                <p>
                  {isLocal.value
                    ? 'Add one to try how the app answers to it.'
                    : 'Add the domain first; this page then shows which DNS record to set where you manage the domain.'}
                </p>
              </Empty>
            }
          >
            {(items) => (
              <ul>
                {items.map((domain) => (
                  <OneDomain
                    key={domain.hostname}
                    {...{ domain }}
                    state={checks.value.get(domain.hostname) ?? null}
                    check={() => model.check(domain.hostname)}
                    drop={() =>
                      remove(domains, domain, `${domain.hostname} is removed`, () =>
                        model.remove(domain.hostname),
                      )
                    }
                  />
                ))}
              </ul>
            )}
          </List>
        </section>
        <MailRoutes app={app} />
        <TcpPorts app={app} />
      </div>
    </>
  );
}

function OneDomain({
  domain: { hostname, created_at },
  state,
  check,
  drop,
}: {
  domain: Domain;
  state: DomainState | Failure | null;
  check: () => Promise<void>;
  drop: () => void;
}) {
  const isTls = session.value?.urls.app.startsWith('https:');
  return (
    <li class="domain">
      <div class="row apart">
        {isLocal.value ? (
          <span class="strong">{hostname}</span>
        ) : (
          <a
            href={`${isTls ? 'https' : 'http'}://${hostname}`}
            target="_blank"
            rel="noreferrer"
            class="strong"
          >
            {hostname} <IconExternalLink />
          </a>
        )}
        <span class="row-actions">
          <Button look="quiet" short label={`Check ${hostname} again`} onClick={check}>
            <IconRefreshCw />
          </Button>
          <RemoveButton needs="admin" label={`Remove ${hostname}`} onClick={drop} />
        </span>
      </div>
      {state === null ? (
        <Skeleton width={240} />
      ) : state instanceof Failure ? (
        <p class="muted">It could not be checked. {state.message}</p>
      ) : (
        <>
          <p class="row">
            {state.state === 'pending' && <Status of="created" word="pending" />}
            {isLocal.value ? (
              state.state === 'active' && <Status of="done" word="answers on this machine" />
            ) : (
              <>
                <Dns state={state} />
                {state.state === 'active' && <Certificate state={state} />}
              </>
            )}
            <span class="muted">
              added <Time at={created_at} />
            </span>
          </p>
          {state.state === 'pending' ? (
            <Proof state={state} />
          ) : (
            !isLocal.value && <WhatToSet state={state} />
          )}
        </>
      )}
    </li>
  );
}

const LEADS = {
  here: ['done', 'leads here'],
  elsewhere: ['superseded', 'leads elsewhere'],
  none: ['created', 'has no address yet'],
  unknown: ['created', 'no name server answers'],
} as const;

function Dns({ state: { dns } }: { state: DomainState }) {
  const [of, word] = LEADS[dns.leads];
  return <Status of={of} word={word} />;
}

function Certificate({ state: { certificate } }: { state: DomainState }) {
  const { state, until, issuer } = certificate;
  if (state === 'off') return null;
  if (state === 'waiting') return <Status of="created" word="certificate with the first visit" />;
  return (
    <span title={`From ${issuer ?? 'an unknown authority'}, until ${exactTime(until!)}`}>
      <Status
        of={state === 'valid' ? 'done' : 'failed'}
        word={state === 'valid' ? 'certificate' : 'the certificate has expired'}
      />{' '}
      <span class="muted">
        until <Time at={until!} />
      </span>
    </span>
  );
}

/** The DNS records that a pending hostname needs. */
function Proof({ state: { hostname, reason, records, dns } }: { state: DomainState }) {
  const address = publicAddress(dns.machine);
  const type = address?.includes(':') ? 'AAAA' : 'A';
  const all = [...(address === null ? [] : [{ type, name: hostname, value: address }]), ...records];
  return (
    <div class="stack tight">
      <p class="muted">
        Not served yet: {reason} Set one of these DNS records where you manage the domain. Cellar looks them
        up every minute.
      </p>
      {all.map(({ type, name, value }) => (
        <Code
          key={type}
          text={`${name}.  ${type}  ${type === 'CNAME' ? `${value}.` : value}`}
          label="Copy the record"
        />
      ))}
    </div>
  );
}

function WhatToSet({ state: { hostname, dns } }: { state: DomainState }) {
  if (dns.leads === 'here') return null;
  const address = publicAddress(dns.machine);
  if (dns.leads === 'elsewhere')
    return (
      <p class="muted">
        It leads to {dns.addresses.join(', ')}
        {dns.alias && `, as ${dns.alias}`}. If a proxy of yours has this address, that is right; otherwise set
        the DNS record to {address ?? 'the public address of this machine'}.
      </p>
    );
  if (dns.leads === 'unknown') return <p class="muted">Check it again in a minute.</p>;
  return (
    <div class="stack tight">
      <p class="muted">
        Set this DNS record where you manage the domain. This page may show the change only after some
        minutes.
      </p>
      <Code
        text={`${hostname}.  ${address?.includes(':') ? 'AAAA' : 'A'}  ${address ?? 'the public address of this machine'}`}
        label="Copy the record"
      />
    </div>
  );
}
