// Breakdowns of an app's requests: paths, referrers, devices and countries.
import type { ComponentChildren } from 'preact';
import { Head } from '../../layout/head.tsx';
import type { Pages } from '../../models/pages.ts';
import {
  countryName,
  deviceName,
  referrerName,
  searchedPath,
  trafficModel,
} from '../../models/telemetry/traffic.ts';
import { Link } from '../../parts/controls/button.tsx';
import { Segments } from '../../parts/controls/tabs.tsx';
import { count, exactCount, percent } from '../../parts/format.ts';
import { useModel } from '../../parts/model.ts';
import { List } from '../../parts/tables/pages.tsx';
import { queryOf, setQuery } from '../../router.ts';

const RANGES = [
  ['1', '1 h'],
  ['24', '24 h'],
  ['168', '7 days'],
  ['720', '30 days'],
] as const;
type Range = (typeof RANGES)[number][0];

export default function Traffic({ app }: { app: string }) {
  const range: Range = RANGES.find(([hours]) => hours === queryOf('hours'))?.[0] ?? '24';
  return (
    <>
      <Head
        title="Traffic"
        about="Requests by path, referrer, device and country. Hours and days are counted as a whole, in UTC."
      >
        <Segments
          label="How far back"
          value={range}
          onValue={(hours) => setQuery({ hours: hours === '24' ? null : hours })}
          options={RANGES}
        />
      </Head>
      <Breakdowns key={range} app={app} hours={Number(range)} />
    </>
  );
}

function Breakdowns({ app, hours }: { app: string; hours: number }) {
  const { paths, referrers, devices, countries } = useModel(() => trafficModel(app, hours));
  const places = countries.items.value;
  const isPlaceUnknown = places.length > 0 && places.every(({ country }) => country === null);
  return (
    <div class="halves">
      <Breakdown
        title="Paths"
        of={paths}
        nameOf={({ path }) =>
          path === null ? (
            'Others'
          ) : (
            <Link to={{ name: 'requests', app }} query={{ path: searchedPath(path) }} class="mono">
              {path}
            </Link>
          )
        }
      />
      <Breakdown title="Referrers" of={referrers} nameOf={referrerName} />
      <Breakdown title="Devices" of={devices} nameOf={deviceName} />
      <Breakdown
        title="Countries"
        of={countries}
        nameOf={({ country }) => (country === null ? 'Unknown' : countryName(country))}
        note={
          isPlaceUnknown &&
          'Countries are known with a database of addresses (RUNNER_GEOIP_DB), or behind Cloudflare.'
        }
      />
    </div>
  );
}

interface Counts {
  requests: number;
  errors: number;
}

/** A ranked list. The bar of each row shows its requests, relative to the highest count. */
function Breakdown<Item extends Counts>({
  title,
  of,
  nameOf,
  note,
}: {
  title: string;
  of: Pages<Item>;
  nameOf: (item: Item) => ComponentChildren;
  note?: ComponentChildren;
}) {
  const most = Math.max(1, ...of.items.value.map(({ requests }) => requests));
  return (
    <section class="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
        <span class="muted small">requests</span>
      </header>
      <List of={of} empty={<p class="nothing muted">No requests in this time.</p>}>
        {(items) => (
          <ol class="ranked">
            {items.map((item) => (
              <li key={of.keyOf(item)} data-row>
                <span
                  class="ranked-bar"
                  aria-hidden="true"
                  style={{ width: `${(item.requests / most) * 100}%` }}
                />
                <span class="cut grow">{nameOf(item)}</span>
                {item.errors > 0 && (
                  <span class="failed-share small" title={`${exactCount(item.errors)} answered with 5xx`}>
                    {percent(item.errors / item.requests)} failed
                  </span>
                )}
                <span class="number" title={exactCount(item.requests)}>
                  {count(item.requests)}
                </span>
              </li>
            ))}
          </ol>
        )}
      </List>
      {note && <p class="nothing muted small">{note}</p>}
    </section>
  );
}
