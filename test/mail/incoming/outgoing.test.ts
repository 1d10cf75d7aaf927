// An app's replies to a received e-mail, as they reach the mail server.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appSenders } from '../../../runtime/mail/addresses.ts';
import { headOf, valuesOf } from '../../../runtime/mail/incoming/head.ts';
import { Outgoing } from '../../../runtime/mail/incoming/outgoing.ts';
import { type Message, messageOf } from '../../../runtime/mail/message.ts';
import { Rates } from '../../../runtime/mail/rates.ts';
import { smtpServer } from '../../../runtime/mail/smtp-server.ts';

/** Returns a received e-mail, a sender of replies to it, and the list of sent replies. */
function receiving() {
  const raw = Buffer.from('From: ann@mail.example\r\nMessage-ID: <1@mail.example>\r\n\r\nHi\r\n');
  const incoming = {
    ...{ owner: 'ada', from: 'ann@mail.example', to: 'info@shop.example', dmarc: 'pass' as const },
    ...{ raw, head: headOf(raw)! },
  };
  const sent: Pick<Message, 'raw'>[] = [];
  const options = {
    server: smtpServer('smtp://127.0.0.1:1')!,
    senders: appSenders('cellar@shop.example', []),
  };
  const outgoing = new Outgoing(options, async (_server, message) => void sent.push(message));
  return { outgoing, incoming, sent };
}

test('a reply has In-Reply-To and References once, however the app spells them', async () => {
  const { outgoing, incoming, sent } = receiving();
  const fields = { from: 'info@shop.example', subject: 'Thanks', text: 'We have it.' };
  const headers = { 'in-reply-to': '<1@mail.example>', REFERENCES: '<1@mail.example>', 'X-Order': '17' };
  for (const given of [headers, null]) {
    await outgoing.reply(incoming, new Rates(), { ...fields, headers: given });
    const head = headOf(sent.at(-1)!.raw)!;
    for (const name of ['in-reply-to', 'references'])
      assert.deepEqual(valuesOf(head, name), ['<1@mail.example>'], name);
    assert.deepEqual(valuesOf(head, 'x-order'), given === null ? [] : ['17']);
  }
});

test('too many headers are refused before they are copied and checked', async () => {
  const headers = Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`X-${n}`, n]));
  const given = { from: 'info@shop.example', subject: 'Thanks', text: 'We have it.', headers };
  const tooMany = { code: 'E_HEADERS_TOO_MANY' };
  await assert.rejects(messageOf({ ...given, to: 'ann@mail.example' }, undefined), tooMany);
  const { outgoing, incoming } = receiving();
  let read = 0;
  const watched = new Proxy(headers, {
    get(target, name) {
      read++;
      return Reflect.get(target, name);
    },
  });
  await assert.rejects(outgoing.reply(incoming, new Rates(), { ...given, headers: watched }), tooMany);
  assert.equal(read, 0);
});
