// An unselected sample of public projects: repositories with a Wrangler configuration, in the order of a search. Twenty have a
// `wrangler.jsonc` at some commit, twenty a `wrangler.toml`. Each is pushed unchanged at its newest commit.
import type { Check, FrameworkProject } from './project.ts';

const ANSWERS: Check[] = [{ path: '/', text: /\S/ }];
/** The project itself answers 404 while it has no data. */
const notFound = (text: RegExp): Check[] => [{ path: '/', status: 404, text }];

const SAMPLE: [repository: string, commit: string, checks: Check[]][] = [
  ['Ibrahim-Rezq/ebrahimyoussef', '198ff752a1984d7af0627476e24dcd74e0193559', ANSWERS],
  ['Ibrahim-SWE/HadesCompanion', 'b9d5f1490b9cae40a3c32e210d0ea822e1421744', ANSWERS],
  ['Ibrahim-SWE/Pokemon-Memory-Game', '5227b8a6c0e00a2f528c9705dc2e0a57bd3899f1', ANSWERS],
  ['Ibrahim-newaeon/Stratum-AI-Final-Updates-Dec-2025', '651673fc0af6e12490f23096bc70b5e67a65299d', ANSWERS],
  ['IbrahimBassiony5/h', 'ca91cca1d3a159edfbc241252f4849930c5580db', ANSWERS],
  ['IbrahimKhan2004/mediapeek-Mediainfo', '407bc17542d2a328f3f7bbe918bd04e792b5a5a0', ANSWERS],
  ['IbrahimTareq/masjidaa-ads-portal', '7c6357a859d9a4269af4907f7cbdf5743487edc5', ANSWERS],
  ['IbrahimTareq/masjidaa-static', '6467cde7c55ec3d818a8bd8998a3a23a932d778d', ANSWERS],
  ['Ibrahimadeel7/Summary-maker', '4edb323c39afb77c690e31e1c6f800f491100c9a', ANSWERS],
  ['Ibrahimhafsa/cafe-sushi', '46183bb92d4058e82e61931e0f693be09d0f3a66', ANSWERS],
  ['Ibsicho/d1-rest', '6ed89b90616a6f699c2376cd7e9cacb5410d5035', ANSWERS],
  ['IbuMb/agent-visibility-template', 'b17ab6cfead97c71e1a448fd86cdf4893fe06f42', ANSWERS],
  ['Ibuqun/RedCoconut', '037a5878200e9a402de8b84590a0bfa4b24f93f4', ANSWERS],
  ['Ibuqun/Vennom', '08094becb3b9f77c3c0a1f484cd1591ae7e9eb34', ANSWERS],
  ['IcandiiHomes/icandii.homes', 'dabeb3f210fbe2dada2091e3aeb0f543143fab99', ANSWERS],
  ['IcarusFoundry/icarusfoundry-site', '3f059e461f00d669eb92b5b3940277d4719cf367', ANSWERS],
  ['Icather/recitation-tool', '621caec9e1b8248af73a15de32607e1303e6c264', ANSWERS],
  ['Icatme/chanfana-openapi-template', '89220cd1b5b824e2b349380ba930c799058ad46e', ANSWERS],
  ['Ice-Hazymoon/short-link', 'f850b3574fa5e098815f32466fd27ec0830f6aaf', notFound(/\S/)],
  ['Ice1984m/mikis13-ai', 'dd8d76460304f75f9d431535f73c3f026e698ca2', ANSWERS],
  ['0-RTT/JSimages', '2d81176b3df43ad250e4d34b2ea5a86e7eb7f8e3', ANSWERS],
  ['0-Vera/Vera', '78d85e042c9d9efbb5f0a7b304c2857811132f56', notFound(/Sayfa bulunamadı/)],
  ['0-o0/carp', '46ed27f46c83a4daba934da21825b6e1a4558c43', ANSWERS],
  ['0-o0/tgbot', 'c2d94e7b261b967ae75b015aa6a55351823b1009', ANSWERS],
  ['0-s0g0/BreathVizAI-HP', '030ea12a606b255fdcef0d1644a86774e66a0aeb', ANSWERS],
  ['0-s0g0/challecara', '7484ecdd8acf9780a08e44c3010a5f0704259a49', ANSWERS],
  ['0-statr/NavSphere', '568d781a6a5ee5df71511ac0a5f6c2a4301ff1ad', ANSWERS],
  ['0-vortex/cf-workers-lastfm-shields', '08eda6a513a59a68a79ab714d686fd1e53a246f2', ANSWERS],
  ['0-vortex/cf-workers-url-shortener', '496fcde0b7ee71c39c78321e4180ae7a8a19d418', ANSWERS],
  ['0-vortex/open-sauced-catsup-app-test', 'ea6fed19f0199eb75252262c98a0fe55a539f4f4', ANSWERS],
  ['0000000-1/actionhub', '22e922e920c4f63a98039324f9bce61330353fb6', ANSWERS],
  ['00000OO/subscription-manager', '32213b2b61ae6bbd1560a27a22164376f03cb2d6', ANSWERS],
  ['0001-labs/0001', '006ccba5a3013c076ac8074ba0623c4e91189033', ANSWERS],
  ['000585/CHUDO-Mail-Secure-', '9ffb588b3ed944de78fc55aa7099734738c51d50', ANSWERS],
  ['000bdhm/status-server', '9c3d34f37a6fd371186878a7693d6f738f532d10', notFound(/not found/)],
  ['001ProMax/danmu_api', '838b5685acee2872dcdc3590f12c518e115756d0', ANSWERS],
  ['00218621/prueba-tecnica-backend', 'b326e4b079b77e8bab8c83243424e7daaca78acf', ANSWERS],
  ['006lp/AkashGen2API', '2e9b440550e952f1357f3ca7a503e47a461dc664', ANSWERS],
  ['007-sistemas/SISTEMA-WEB-CLOUDFLARE', '092711a04049df6598f241138bfa5cc9c5db3f21', ANSWERS],
  ['007Joch/melodias-em-destaque-897ef049', 'df7f0b8b4d0b9b157c7dd96b0ff713238e8021cc', ANSWERS],
];

export const publicProjects: FrameworkProject[] = SAMPLE.map(([name, commit, checks]) => ({
  name: `public: ${name}`,
  repository: { url: `https://github.com/${name}`, commit },
  manager: 'none',
  checks,
  assets: false,
}));
