// SQL of Analytics Engine over stored data points. Queries are like those of Cloudflare's documentation and of public projects.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Datapoints } from '../../runtime/telemetry/metrics/datapoints.ts';
import { queryDatapoints } from '../../runtime/telemetry/sql/queries.ts';
import { QueryRefused, query } from '../../runtime/telemetry/sql/query.ts';
import { Store } from '../../runtime/telemetry/store/store.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const directory = mkdtempSync(join(tmpdir(), 'cellar-'));
const PATH = join(directory, 'datapoints.sqlite');
const at = (text: string) => Date.parse(`${text}Z`);
const store = new Store(directory);
const points = new Datapoints(store, { retentionDays: 1_000_000 });
after(() => {
  store.close();
  rmSync(directory, { recursive: true });
});
// [time, site, path, country, duration, is new]
const VIEWS = [
  ['2026-03-01T04:59:59', 'shop', '/', 'DE', 10, 1],
  ['2026-03-01T05:00:00', 'shop', '/', 'DE', 20, 0],
  ['2026-03-01T12:10:00', 'shop', '/cart', 'FR', 30, 1],
  ['2026-03-02T12:20:00', 'shop', '/', 'DE', 40, 1],
  ['2026-03-02T12:30:00', 'blog', '/100%', '', 1000, 0],
] as const;
for (const [time, site, path, country, ms, isNew] of VIEWS)
  points.report('a', at(time), {
    dataset: 'views',
    index: site,
    blobs: [path, country],
    doubles: [ms, isNew],
  });
points.report('b', Date.now(), { dataset: 'other', index: null, blobs: [], doubles: [] });
points.report('c', Date.now(), { dataset: 'views', index: 'hidden', blobs: ['hidden'], doubles: [] });
points.flush();

function run(sql: string, apps = ['a', 'b']) {
  const { text } = query(PATH, apps, sql)!;
  return JSON.parse(text);
}
const rows = (sql: string) => run(sql).data.map((row: object) => Object.values(row));

test('a query has the columns, types and rows of Cloudflare', () => {
  const sql = `SELECT timestamp, index1 AS site, double1, blob20, double20, count() AS n, -- all of them
    _sample_interval FROM views WHERE index1 = 'blog' GROUP BY timestamp, site, double1, blob20, double20, _sample_interval`;
  assert.deepEqual(run(sql), {
    meta: [
      { name: 'timestamp', type: 'DateTime' },
      { name: 'site', type: 'String' },
      { name: 'double1', type: 'Float64' },
      { name: 'blob20', type: 'String' },
      { name: 'double20', type: 'Float64' },
      { name: 'n', type: 'UInt64' },
      { name: '_sample_interval', type: 'UInt32' },
    ],
    data: [
      {
        timestamp: '2026-03-02 12:30:00',
        site: 'blog',
        double1: 1000,
        blob20: '',
        double20: 0,
        n: '1',
        _sample_interval: 1,
      },
    ],
    rows: 1,
    rows_before_limit_at_least: 1,
  });
  assert.equal(Object.keys(run('SELECT * FROM views LIMIT 1').data[0]).length, 44);
});

test('the formats', () => {
  const sql = 'SELECT blob1, sum(_sample_interval) FROM views GROUP BY blob1 ORDER BY blob1 LIMIT 2 FORMAT ';
  const text = (format: string) => query(PATH, ['a'], sql + format)!;
  assert.equal(text('TabSeparated').text, '/\t3\n/100%\t1\n');
  assert.equal(
    text('JSONEachRow').text,
    '{"blob1":"/","sum(_sample_interval)":"3"}\n{"blob1":"/100%","sum(_sample_interval)":"1"}\n',
  );
  assert.deepEqual(run(`${sql}JSON;`).rows_before_limit_at_least, 3);
  assert.deepEqual(rows('SHOW TABLES'), [
    ['other', 'native'],
    ['views', 'native'],
  ]);
  assert.deepEqual(rows('SHOW TIMEZONE'), [['Etc/UTC']]);
  assert.ok(rows('show timezones').length > 100);
});

test('buckets in a time zone, as Counterscale asks for them', () => {
  const sql = `SELECT SUM(_sample_interval) as count,
      /* the start is midnight in New York */
      toStartOfInterval(timestamp, INTERVAL '1' DAY, 'America/New_York') as _bucket,
      double2 as isVisitor,
      toDateTime(_bucket, 'Etc/UTC') as bucket
    FROM views
    WHERE timestamp >= toDateTime('2026-02-28 05:00:00') AND timestamp < toDateTime('2026-03-03 05:00:00')
      AND index1 = 'shop'
    GROUP BY _bucket, isVisitor
    ORDER BY _bucket ASC, isVisitor DESC`;
  assert.deepEqual(run(sql).data, [
    { count: '1', _bucket: '2026-02-28 00:00:00', isVisitor: 1, bucket: '2026-02-28 05:00:00' },
    { count: '1', _bucket: '2026-03-01 00:00:00', isVisitor: 1, bucket: '2026-03-01 05:00:00' },
    { count: '1', _bucket: '2026-03-01 00:00:00', isVisitor: 0, bucket: '2026-03-01 05:00:00' },
    { count: '1', _bucket: '2026-03-02 00:00:00', isVisitor: 1, bucket: '2026-03-02 05:00:00' },
  ]);
});

for (const [sql, expected] of [
  // Queries of Cloudflare's documentation.
  [
    "SELECT intDiv(toUInt32(timestamp), 3600) * 3600 AS t, sum(_sample_interval) FROM views WHERE blob2 = 'FR' GROUP BY t ORDER BY t",
    [[`${at('2026-03-01T12:00:00') / 1000}`, '1']],
  ],
  [
    'SELECT blob2, SUM(_sample_interval * double1) / SUM(_sample_interval) AS avg_ms FROM views GROUP BY blob2 HAVING avg_ms > 25 ORDER BY avg_ms DESC',
    [
      ['', 1000],
      ['FR', 30],
    ],
  ],
  [
    'SELECT quantileExactWeighted(0.5)(double1, _sample_interval) AS p50, quantileWeighted(0.99, double1, _sample_interval) FROM views',
    [[30, 1000]],
  ],
  [
    "SELECT count(DISTINCT blob2), countIf(blob2 = 'DE'), sumIf(double1, double2 = 1), avgIf(double1, blob1 = 'none') FROM views",
    [['3', '3', 80, null]],
  ],
  [
    'SELECT topK(2)(blob1), topKWeighted(1)(blob2, double1), argMax(blob1, double1), argMin(blob1, double1), min(timestamp) FROM views',
    [[['/', '/cart'], [''], '/100%', '/', '2026-03-01 04:59:59']],
  ],
  [
    "SELECT first_value(blob1), last_value(blob1), max(double1) FROM views WHERE blob1 LIKE '%\\\\%%' OR blob1 ILIKE '/C_RT'",
    [['/cart', '/100%', 1000]],
  ],
  // Examples of Cloudflare's functions.
  [
    "SELECT position(':' IN 'hello: world'), substring('hello: world', 1, position(':' IN 'hello: world')-1), position('é' IN '😀é'), position('b' IN concat('a', 'b')) = 2 AND 1, position('ab', 'x')",
    [['6', 'hello', '2', 1, '0']],
  ],
  [
    "SELECT length('é😀'), substring('😀éa', 2, 1), substring('😀éa', -1), lower('ÄB'), upper('äb'), lowerUTF8('ÄB'), upperUTF8('äb'), toLower('Ä')",
    [['2', 'é', 'a', 'Äb', 'äB', 'äb', 'ÄB', 'ä']],
  ],
  [
    "SELECT hex(1), hex('abc'), bin(1), bin('abc'), hex(258), hex(-1), hex(0), hex(1.5)",
    [
      [
        ...['01', '616263', '00000001', '011000010110001001100011'],
        ...['0102', 'FFFFFFFFFFFFFFFF', '00', '000000000000F83F'],
      ],
    ],
  ],
  [
    'SELECT topK(double2), topK(1)(timestamp), topKWeighted(1)(double1, double1), topK(1)(_sample_interval + 1) FROM views',
    [[[1, 0], ['2026-03-01 04:59:59'], [1000], ['2']]],
  ],
  ['SELECT first_value(blob1) FROM views ORDER BY timestamp DESC', [['/100%']]],
  [
    'SELECT last_value(double1) AS last, first_value(double1) FROM views ORDER BY index1 DESC, last, double1 ASC',
    [[1000, 10]],
  ],
  // Queries of public projects.
  [
    'SELECT SUM(IF(double2 = 1, 0, _sample_interval)) AS old, SUM(IF(double1 >= 0, _sample_interval * double1, 0)) AS cost FROM views GROUP BY index1 ORDER BY cost',
    [
      ['1', 100],
      ['1', 1000],
    ],
  ],
  [
    "SELECT IF(SUM(_sample_interval) > 0, SUM(_sample_interval * double1) / SUM(_sample_interval), 0) AS mean FROM views WHERE blob1 IN ('/', '/cart') LIMIT 1",
    [[25]],
  ],
  [
    'SELECT COUNT() AS visitors, SUM(si) FROM (SELECT blob2, SUM(_sample_interval) AS si FROM views GROUP BY blob2)',
    [['3', '5']],
  ],
  [
    "SELECT toDate(timestamp) AS day, COUNT(*) FROM views WHERE timestamp BETWEEN '2026-03-01' AND '2026-03-02 00:00:00' GROUP BY day",
    [['2026-03-01', '3']],
  ],
  ["SELECT count() FROM views WHERE timestamp > NOW() - INTERVAL '90' DAY AND NOT blob1 = ''", [['0']]],
  [
    "SELECT formatDateTime(toStartOfHour(timestamp), '%Y-%m-%dT%H:%i:00Z') AS h, count() AS c FROM views GROUP BY h ORDER BY c DESC, h LIMIT 1 OFFSET 1",
    [['2026-03-01T04:00:00Z', '1']],
  ],
  ["SELECT max(timestamp) AS timestamp FROM views WHERE timestamp < '2026-03-02'", [['2026-03-01 12:10:00']]],
  // Syntax and functions that the queries above do not use.
  [
    "SELECT 1 + 2 * 3 - -4, 7 / 2, 7 % 4, 2 = 2 AND NOT 1 > 2, 'it''s', concat('a', 1), format('{}-{}', 'x', 2), -1",
    [['11', 3.5, '3', 1, "it's", 'a1', 'x-2', '-1']],
  ],
  [
    "SELECT toDateTime('2026-01-31 12:00:00') + INTERVAL 1 MONTH, toStartOfWeek(toDateTime('2026-03-01 12:00:00')), toYYYYMM(toDateTime(0)), EXTRACT(DAY FROM toDateTime('2026-01-31'))",
    [['2026-02-28 12:00:00', '2026-02-23 00:00:00', 197001, 31]],
  ],
  // The clocks of Berlin go forward between the two days. A day later is the same time of the day; 24 hours later is not.
  [
    "SELECT toDateTime('2026-03-28 12:00:00', 'Europe/Berlin') + INTERVAL 1 DAY, toDateTime('2026-04-02 12:00:00', 'Europe/Berlin') - INTERVAL 1 WEEK, toDateTime('2026-03-28 12:00:00', 'Europe/Berlin') + INTERVAL 24 HOUR",
    [['2026-03-29 12:00:00', '2026-03-26 12:00:00', '2026-03-29 13:00:00']],
  ],
  ['SELECT DISTINCT index1 FROM views ORDER BY 1', [['blog'], ['shop']]],
  ['SELECT count(), sum(double1), max(blob1) FROM views WHERE 1 = 0', [['0', 0, '']]],
] as const)
  test(sql, () => assert.deepEqual(rows(sql), expected));

for (const [sql, message] of [
  ['SELECT', 'an expression is expected, not the end of the query (line 1, column 7)'],
  ['SELECT blob1\nFROM views\nWHERE bolb1 = 1', 'there is no column bolb1 (line 3, column 7)'],
  [
    'SELECT blob1, count() FROM views',
    'the column blob1 must be in GROUP BY, or in an aggregate such as max(blob1) (line 1, column 8)',
  ],
  ['SELECT sleep(10)', 'there is no function sleep() (line 1, column 8)'],
  ['SELECT uniq() FROM views', 'uniq() takes 1 arguments, not 0 (line 1, column 8)'],
  ['SELECT constructor(1), toString(1)', 'there is no function constructor() (line 1, column 8)'],
  ['SELECT sum(blob1) FROM views', 'sum() needs a number as argument 1, not String (line 1, column 12)'],
  [
    'SELECT count() FROM views WHERE count() > 1',
    'count() is an aggregate, which cannot be used here (line 1, column 33)',
  ],
  ["SELECT 1 = 'a'", 'equals() cannot compare UInt8 with String (line 1, column 10)'],
  [
    "SELECT count() FROM views WHERE timestamp > 'today'",
    `"today" is not a time such as '2026-01-31 12:00:00' (line 1, column 45)`,
  ],
  ['DROP TABLE views', 'SELECT is expected, not DROP (line 1, column 1)'],
  ['SELECT 1; SELECT 2', 'the end of the query is expected, not SELECT (line 1, column 11)'],
  ['SELECT a.b FROM views JOIN other', 'the end of the query is expected, not . (line 1, column 9)'],
  ["SELECT 'a", 'the quote is not closed (line 1, column 8)'],
  ["SELECT toStartOfHour(NOW(), 'Mars')", 'there is no time zone Mars (line 1, column 29)'],
  ['SELECT intDiv(1, 0)', 'intDiv() divides by zero'],
  [
    'SELECT 1 FORMAT CSV',
    'a format (JSON, JSONEachRow, TabSeparated) is expected, not CSV (line 1, column 17)',
  ],
  [`SELECT ${'('.repeat(5_000)}1${')'.repeat(5_000)}`, /^the query nests too deeply/],
  [`SELECT ${Array(5_000).fill('1').join('+')}`, /^an expression may chain at most 100 operators/],
  [
    `SELECT ${Array.from({ length: 40 }, (_, i) => `a${i} + a${i} AS a${i + 1}`).join(', ')}, 1 AS a0`,
    /^the query is too large/,
  ],
] as const)
  test(`refused: ${sql.slice(0, 60)}`, () => {
    assert.throws(
      () => query(PATH, ['a'], sql),
      (error) => {
        assert.ok(error instanceof QueryRefused, String(error));
        if (typeof message === 'string') assert.equal(error.message, message);
        else assert.match(error.message, message);
        return true;
      },
    );
  });

test('a query reads only points of the apps that it is for', () => {
  assert.deepEqual(rows("SELECT count() FROM views WHERE index1 = 'hidden'"), [['0']]);
  assert.equal(query(PATH, ['b'], 'SELECT * FROM views'), null);
  assert.equal(query(PATH, [], 'SHOW TABLES'), null);
});

test('datasets of other hosts are listed, and a dataset that is there too is not queried', () => {
  const elsewhere = ['views', 'alone'];
  const ask = (apps: string[], sql: string) => query(PATH, apps, `${sql} FORMAT TabSeparated`, elsewhere);
  assert.equal(ask(['b'], 'SHOW TABLES')!.text, 'alone\tnative\nother\tnative\nviews\tnative\n');
  assert.equal(ask([], 'SHOW TABLES')!.text, 'alone\tnative\nviews\tnative\n');
  assert.equal(ask(['b'], 'SELECT 1')!.text, '1\n');
  assert.equal(ask(['b'], 'SELECT count() FROM other')!.text, '1\n');
  assert.equal(ask(['b'], 'SELECT count() FROM views'), null);
  assert.throws(
    () => ask(['a'], 'SELECT n FROM (SELECT count() AS n FROM views)'),
    /^DatasetSpread|several hosts/,
  );
});

test('a text does not get long before it is refused', () => {
  const made = (last: string) =>
    `SELECT length(${last}) AS n, '${'x'.repeat(30_000)}' AS a, concat(${Array(34).fill('a').join()}) AS b`;
  assert.equal(rows(made(`format('{}-{0}', 'xy')`))[0][0], '5');
  const before = process.memoryUsage().rss;
  for (const last of [`format('${'{0}'.repeat(500)}', b)`, `concat(${Array(100).fill('b').join()})`])
    assert.throws(() => rows(made(last)), /a text gets longer than 1 MiB/);
  assert.ok(process.memoryUsage().rss - before < 100 * 1024 * 1024);
});

const startIn = (zone: string, unit: string, time: string) =>
  rows(
    `SELECT toDateTime(toStartOfInterval(toDateTime('${time}'), INTERVAL ${unit}, '${zone}'), 'Etc/UTC')`,
  )[0][0];

for (const [zone, unit, time, start] of [
  // 01:30 occurs twice.
  ['America/New_York', '1 HOUR', '2026-11-01 05:30:00', '2026-11-01 05:00:00'],
  ['America/New_York', '1 HOUR', '2026-11-01 06:30:00', '2026-11-01 06:00:00'],
  ['America/New_York', '1 MINUTE', '2026-11-01 06:30:20', '2026-11-01 06:30:00'],
  ['America/New_York', '2 HOUR', '2026-11-01 06:30:00', '2026-11-01 04:00:00'],
  ['Europe/Berlin', '1 HOUR', '2026-10-25 00:30:00', '2026-10-25 00:00:00'],
  ['Europe/Berlin', '1 HOUR', '2026-10-25 01:30:00', '2026-10-25 01:00:00'],
  // 02:00 does not occur.
  ['America/New_York', '2 HOUR', '2026-03-08 07:30:00', '2026-03-08 07:00:00'],
  // Midnight occurs twice, or not at all.
  ['America/Havana', '1 DAY', '2026-11-01 05:30:00', '2026-11-01 04:00:00'],
  ['America/Havana', '1 DAY', '2026-03-08 12:00:00', '2026-03-08 05:00:00'],
  ['Asia/Beirut', '1 DAY', '2026-03-29 12:00:00', '2026-03-28 22:00:00'],
  ['Asia/Beirut', '1 DAY', '2026-10-24 20:30:00', '2026-10-23 21:00:00'],
] as const)
  test(`${time} is in the interval of ${unit} from ${start} in ${zone}`, () =>
    assert.equal(startIn(zone, unit, time), start));

test('the last times of a Date have no error in any zone', () => {
  const sql = "SELECT toDateTime(8639999999999, 'Asia/Tokyo'), toDateTime(8639999999999, 'Pacific/Niue')";
  assert.deepEqual(rows(sql), [['1970-01-01 00:00:00', '1970-01-01 00:00:00']]);
});

test('a query that takes too long is ended, and others go on', async () => {
  for (let n = 0; n < 2_000; n++)
    points.report('slow', 0, { dataset: 'slow', index: null, blobs: ['a'.repeat(8_000)], doubles: [n] });
  points.flush();
  const ask = (owner: string, sql: string) =>
    queryDatapoints(directory, { app_ids: ['slow'], owner, sql }, 5_000);
  const pattern = `%${'a%'.repeat(500)}b`;
  const slow = Array.from({ length: 50 }, () => `blob1 LIKE '${pattern}'`).join(' OR ');
  const refused = assert.rejects(ask('a', `SELECT count() FROM slow WHERE ${slow}`), /took longer than 5 s/);
  assert.equal(JSON.parse((await ask('b', 'SELECT count() AS n FROM slow')).text).data[0].n, '2000');
  await refused;
  await assert.rejects(ask('a', 'SELECT groupArray(blob1) FROM slow'), /there is no function grouparray/);
});

test('an unexpected error of a query is not reported as a timeout', async (t) => {
  const asked = { app_ids: ['a'], owner: 'a', sql: 'SELECT 1' };
  await assert.rejects(queryDatapoints(temporaryDirectory(t), asked), /^SqliteError|unable to open database/);
});

test('a query that keeps too much in memory is refused', (t) => {
  const folder = temporaryDirectory(t);
  const large = new Store(folder);
  t.after(() => large.close());
  const many = new Datapoints(large, { retentionDays: 1_000_000, appBytes: 512 * 1024 * 1024 });
  for (let n = 0; n < 3_500; n++) {
    many.report('a', 0, { dataset: 'd', index: null, blobs: [`${n}`.padEnd(16_000, 'x')], doubles: [] });
    if (n % 1_000 === 0) many.flush();
  }
  many.flush();
  const path = join(folder, 'datapoints.sqlite');
  assert.throws(() => query(path, ['a'], 'SELECT blob1 FROM d ORDER BY blob1'), /keeps too much in memory/);
  assert.throws(() => query(path, ['a'], 'SELECT blob1 FROM d LIMIT 2000'), /exceeds 16 MiB/);
});
