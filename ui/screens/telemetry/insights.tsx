// Insights: figures that the code of the app reports.
import { Head } from '../../layout/head.tsx';
import { insightsModel } from '../../models/telemetry/people.ts';
import { Code } from '../../parts/code/code.tsx';
import { exactCount } from '../../parts/format.ts';
import { IconSparkles } from '../../parts/icons.tsx';
import { useModel } from '../../parts/model.ts';
import { Empty } from '../../parts/status/states.tsx';
import { Time } from '../../parts/status/time.tsx';
import { List } from '../../parts/tables/pages.tsx';
import { session } from '../../session.ts';
import { FromTheApp } from './from-the-app.tsx';

export default function Insights({ app }: { app: string }) {
  const insights = useModel(() => insightsModel(app));
  return (
    <>
      <Head
        title="Insights"
        about="Figures and texts that the app sets. Each insight has only its last value."
      />
      <List
        of={insights}
        empty={
          <div class="panel">
            <Empty title="No insights yet" icon={IconSparkles}>
              <FromTheApp call="await env.CELLAR.insight({ title: 'Orders', value: { $inc: 1 } });" />
              <p>Or from outside, by an API key with the role push:</p>
              <Code
                text={`curl ${session.value?.urls.api}/v1/apps/${app}/insights -H "authorization: Bearer $KEY" \\\n  -H 'content-type: application/json' -d '{"title": "Orders", "value": {"$inc": 1}}'`}
              />
            </Empty>
          </div>
        }
      >
        {(items) => (
          <ul class="gauges">
            {items.map(({ title, value, icon, updated_at }) => (
              <li key={title} class="panel gauge">
                <h2>
                  {icon && <span aria-hidden="true">{icon} </span>}
                  {title}
                </h2>
                <p class="reading">{typeof value === 'number' ? exactCount(value) : value}</p>
                <p class="small muted">
                  <Time at={updated_at} />
                </p>
              </li>
            ))}
          </ul>
        )}
      </List>
    </>
  );
}
