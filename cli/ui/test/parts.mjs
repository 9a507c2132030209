// What the page promises, a part each.
import assert from "node:assert/strict";
import { NARROW, WIDE, Watched } from "./browser.mjs";
import * as data from "./data.mjs";

/** Places of the page, and a text that is there once it is drawn. */
const PLACES = [
  ["map", "#/", "Overview"],
  ["map-cluster", "#/?sel=cluster%2Fmember1", "Provides to"],
  ["map-arc", "#/?sel=cluster%2Fmember4&to=cluster%2Fmember1", "From a provider"],
  ["map-list", "#/?as=list", "Ready endpoints"],
  ["map-filtered", "#/?q=nothing-of-the-name", "No service matches"],
  ["table", "#/table", "Members"],
  ["table-filtered", "#/table?ns=shop&state=not-ready&sort=-age", "1 service found"],
  ["service", "#/shop/foo", "foo.shop.svc.clusterset.local"],
  ["service-not-ready", "#/shop/cart", "ForeignService"],
  ["service-tiers", "#/shop/checkout", "Serving from"],
  ["service-gone", "#/shop/nothing", "Nothing exposes"],
  ["cluster", "#/clusters/member3", "Conditions"],
  ["cluster-unknown", "#/clusters/nobody", "No cluster is called"],
  ["unknown", "#/a/b/c/d", "no such view"],
];

async function shown(browser, fixture, options, visit) {
  const watched = await Watched.open(browser, fixture.url, options);
  await visit(watched);
  watched.assertClean("a page without an error");
  await watched.close();
}

export async function every_view_dark_and_light_wide_and_narrow_without_a_violation(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  for (const colorScheme of ["light", "dark"]) {
    for (const [size, viewport] of [["wide", WIDE], ["narrow", NARROW]]) {
      await shown(browser, fixture, { colorScheme, viewport }, async (watched) => {
        for (const [name, hash, text] of PLACES) {
          await watched.go(hash);
          await watched.says(text);
          await watched.assertFits(`${name}, ${size}`);
          // Colours do not change with the width.
          if (size === "wide" || colorScheme === "light") await watched.axe(`${name}, ${colorScheme}, ${size}`);
          await watched.picture(`${name}-${colorScheme}-${size}`);
        }
      });
    }
  }
}

export async function nothing_there_says_what_to_do(browser, fixture) {
  fixture.state = data.nothing();
  await fixture.start();
  for (const colorScheme of ["light", "dark"]) {
    await shown(browser, fixture, { colorScheme }, async (watched) => {
      for (const [name, hash] of [["map", "#/"], ["table", "#/table"]]) {
        await watched.go(hash);
        await watched.says("kubectl mcs join NAME");
        await watched.axe(`empty ${name}, ${colorScheme}`);
        await watched.picture(`empty-${name}-${colorScheme}`);
      }
      fixture.reset({ ...data.nothing(), clusters: data.small().clusters });
      await watched.go("#/");
      await watched.says("No service is exposed");
      await watched.picture(`empty-services-${colorScheme}`);
      fixture.reset(data.nothing());
    });
  }
}

export async function what_is_lost_is_said_and_what_is_back_too(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    await watched.go("#/table");
    await watched.says("shop/foo");
    const [member1, member2] = fixture.state.clusters;
    fixture.change({ clusters: [data.disconnected(member1)] });
    await watched.says("is disconnected since");
    await watched.axe("a cluster is disconnected");
    await watched.picture("banner-cluster-light-wide");
    await watched.page.waitForFunction(() => document.querySelector("[role=status]")?.textContent.includes("cluster member1: disconnected"));
    fixture.change({ clusters: [data.disconnected(member2)] });
    await watched.says("2 clusters are disconnected");
    fixture.change({ clusters: [member1, member2] });
    await watched.saysNoMore("disconnected");
    watched.expected = /net::ERR_/;
    await fixture.stop();
    await watched.says("Connection to kubectl mcs ui lost since");
    await watched.axe("the server is lost");
    await watched.picture("banner-server-light-wide");
    fixture.state = { ...data.small(), services: data.small().services.slice(0, 2) };
    await fixture.start();
    await watched.saysNoMore("Connection to kubectl mcs ui lost");
    await watched.saysNoMore("data/kafka");
  });
}

/** Waits until the server has that number of open streams. */
async function streams({ page }, fixture, wanted) {
  while (fixture.streams !== wanted) await page.waitForTimeout(50);
}

/** Counts events named alive, in `window.alive`, before the page handles them. */
function countAlive() {
  window.alive = 0;
  window.EventSource = class extends EventSource {
    constructor(url) {
      super(url);
      this.addEventListener("alive", () => (window.alive += 1));
    }
  };
}

export async function silent_streams_are_lost_and_opened_again(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    const { page } = watched;
    const lost = "Connection to kubectl mcs ui lost since";
    await page.clock.install();
    await page.addInitScript(countAlive);
    await page.reload();
    await watched.go("#/shop/foo");
    await watched.says("Every ready endpoint is in every consumer");
    fixture.silent = true;
    for (const round of [1, 2, 3]) {
      await page.clock.fastForward(30_000);
      fixture.alive();
      // Each of the two streams receives the event.
      await watched.becomes((count) => window.alive >= count, 2 * round);
    }
    assert.equal(fixture.streams, 2, "the first streams are open");
    assert.ok(!(await page.innerText("body")).includes(lost), "90 seconds with events");

    await page.clock.fastForward(46_000);
    await watched.says(lost);
    // The banner names the time of the last event.
    await watched.becomes(() => /\((4[5-9]s|5\ds|[1-9]m)/.test(document.querySelector(".banner.bad")?.innerText));
    await streams(watched, fixture, 0);
    fixture.silent = false;
    const { services } = fixture.state;
    fixture.state = { ...fixture.state, services: services.filter((one) => one.kind !== "ServiceExport") };
    // The new connections are silent too: they are closed in turn.
    await page.clock.fastForward(46_000);
    await watched.saysNoMore(lost);
    await streams(watched, fixture, 2);
    const painted = await watched.whenPainted("main", "5 of 5 ready");
    fixture.explain("shop/foo", data.explanation(data.service("shop", "foo", [["member1", 5]], ["member2"])));
    await painted.at();
  });
}

/** Hides or shows a page, as a browser does whose user chooses another tab. Pages of a headless browser are all visible. */
async function setHidden(page, hidden) {
  await page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}

export async function hidden_pages_hold_no_connection(browser, fixture) {
  await shownReady(browser, fixture, async (watched) => {
    const { page, context } = watched;
    const lost = "Connection to kubectl mcs ui lost since";
    const pages = [page];
    while (pages.length < 8) {
      await setHidden(pages.at(-1), true);
      const next = await context.newPage();
      await next.goto(`${fixture.url}#/shop/foo`);
      await next.waitForFunction(() => document.body.innerText.includes("Every ready endpoint is in every consumer"));
      pages.push(next);
    }
    await streams(watched, fixture, 2);
    await setHidden(pages.at(-1), true);
    await streams(watched, fixture, 0);
    fixture.explain("shop/foo", data.explanation(data.service("shop", "foo", [["member1", 5]], ["member2"])));
    const { services } = fixture.state;
    fixture.state = { ...fixture.state, services: services.filter((one) => one.namespace === "shop") };
    assert.ok(!(await page.innerText("body")).includes(lost), "a hidden page");
    const painted = await watched.whenPainted("main", "5 of 5 ready");
    await setHidden(page, false);
    await painted.at();
    await watched.go("#/table");
    await watched.saysNoMore("data/kafka");
    await streams(watched, fixture, 1);
    assert.ok(!(await page.innerText("body")).includes(lost), "a page that is visible again");
  });
}

export async function page_that_finds_no_server_names_the_last_event(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    const { page } = watched;
    await page.clock.install();
    await page.reload();
    await watched.says("Overview");
    await setHidden(page, true);
    await streams(watched, fixture, 0);
    await page.clock.fastForward(15 * 60_000);
    const isLost = () => /lost since .*\(1[5-9]m ago\)/.test(document.querySelector(".banner.bad")?.innerText);
    // Something accepts the connection, and no byte comes back.
    fixture.silent = true;
    await setHidden(page, false);
    await page.clock.fastForward(6_000);
    await watched.becomes(isLost);
    fixture.silent = false;
    await setHidden(page, true);
    await setHidden(page, false);
    await streams(watched, fixture, 1);
    await watched.saysNoMore("lost since");
    await setHidden(page, true);
    await page.clock.fastForward(15 * 60_000);
    watched.expected = /net::ERR_/;
    await fixture.stop();
    await setHidden(page, false);
    await watched.becomes(isLost);
  });
}

/** Shows the page of service shop/foo, which is ready, and has `play` go on from there. */
async function shownReady(browser, fixture, play) {
  fixture.state = data.small();
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    await watched.go("#/shop/foo");
    await watched.says("Every ready endpoint is in every consumer");
    const [foo] = fixture.state.services;
    await play(watched, foo);
  });
}

export async function a_service_is_followed_until_it_is_gone_and_back(browser, fixture) {
  await shownReady(browser, fixture, async (watched, foo) => {
    const more = data.service("shop", "foo", [["member1", 5]], ["member2", "member3"]);
    const painted = await watched.whenPainted("main", "5 of 5 ready");
    const sent = fixture.explain("shop/foo", data.explanation(more));
    console.log(`  from an event of a service to the changed page: ${(await painted.at()) - sent} ms`);
    fixture.explain("shop/foo", undefined);
    fixture.change({ removedServices: fixture.state.services.filter((one) => one.name === "foo").map((one) => one.key) });
    await watched.says("Nothing exposes shop/foo");
    fixture.change({ services: [foo] });
    fixture.explain("shop/foo", data.explanation(foo));
    await watched.says("Every ready endpoint is in every consumer");
  });
}

export async function provider_bears_the_sign_of_its_worst_diagnosis(browser, fixture) {
  await shownReady(browser, fixture, async (watched, foo) => {
    const [member1] = fixture.state.clusters;
    const signs = () => watched.page.locator(".provider h4 .mark").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
    const is = async (wanted, ready, reason) => {
      const diagnosis = { reason, message: `member1 is ${reason}`, remedy: "kubectl mcs check" };
      const change = (made, exposure) => {
        made.ready = ready;
        exposure.providers[0].diagnoses.push(diagnosis);
      };
      fixture.explain("shop/foo", data.explanation(foo, change));
      await watched.says(diagnosis.message);
      assert.deepEqual(await signs(), wanted, reason);
    };
    await is([], true, "DeletionsSuspended");
    await is(["Not ready"], false, "Drained");
    await is(["Partly ready, changing or unknown"], false, "MemberNotRead");
    await watched.axe("a provider with a sign");
    fixture.change({ clusters: [data.disconnected(member1)] });
    await watched.becomes(() => document.querySelector(".provider h4 .mark").getAttribute("aria-label") === "Disconnected");
  });
}

export async function unread_part_is_unknown_and_not_wrong(browser, fixture) {
  await shownReady(browser, fixture, async (watched, foo) => {
    const explained = (diagnoses) => data.explanation(foo, (made) => Object.assign(made, { ready: false, diagnoses }));
    const marks = () =>
      watched.page.locator(".problems > li").evaluateAll((all) => all.map((one) => `${one.className} ${one.querySelector("strong").textContent}`));
    const unread = {
      reason: "NamespaceNotRead",
      message: "Namespace shop of the hub could not be read",
      remedy: "look with the right to get Namespace shop of the hub",
    };
    fixture.explain("shop/foo", explained([unread]));
    await watched.says("Unknown, because a part could not be read:");
    assert.deepEqual(await marks(), ["partial NamespaceNotRead"]);
    const wrong = { reason: "Leftovers", message: "objects are left in member2", remedy: "kubectl mcs status" };
    fixture.explain("shop/foo", explained([unread, wrong]));
    await watched.says("Something is wrong:");
    assert.deepEqual(await marks(), ["partial NamespaceNotRead", "bad Leftovers"]);
  });
}

/** Problem of a part that could not be read. */
const unread = (reason, message) => ({ reason, message, remedy: "look with the right to get it" });

export async function ready_services_with_an_unread_part_are_unknown(browser, fixture) {
  fixture.state = data.small();
  const only = (more = {}, problem = undefined) => data.service("shop", "foo", [["member1", 3, 3, problem]], ["member2"], more);
  fixture.state.services = [only()];
  await fixture.start();
  const member = unread("MemberNotRead", "member1 could not be read");
  const namespace = unread("NamespaceNotRead", "Namespace shop of the hub could not be read");
  const leftovers = { reason: "Leftovers", message: "objects are left in member1", remedy: "kubectl mcs status" };
  const missing = { cluster: "member2", endpoints: 0, ready: 0, missing: 3, standby: 0 };
  await shown(browser, fixture, {}, async (watched) => {
    const { page } = watched;
    const is = async (service, tally, row) => {
      fixture.change({ services: [service] });
      await watched.go("#/");
      await watched.becomes((wanted) => document.querySelector(".numbers > :last-child .aside")?.textContent === wanted, tally);
      const found = tally === "all ready" ? "1 service found" : "No service matches";
      await watched.go("#/table?ns=shop&state=ready");
      await watched.says(found);
      await watched.go("#/table?ns=shop");
      await watched.says("1 service found");
      const cells = page.locator("tr:has(a[href='#/shop/foo']) td:nth-child(6)");
      assert.equal(await cells.innerText().then((text) => text.replaceAll(/\s+/g, " ").trim()), row);
      assert.equal(await cells.locator(tally === "all ready" ? ".mark.ok" : ".mark.partial").count(), 1);
    };
    await is(only(), "all ready", "Ready Synced");
    await is(only({ problems: [namespace] }), "1 unknown", `Unknown NamespaceNotRead ${namespace.message}`);
    await watched.becomes(() => document.querySelector(".hidden[role=status]").textContent === "shop/foo: Unknown");
    await is(only({}, member), "1 unknown", `Unknown MemberNotRead ${member.message}`);
    await is(only({ consumers: [{ ...missing, problem: member }] }), "1 unknown", `Unknown MemberNotRead ${member.message}`);
    await is(only({ problems: [namespace] }, leftovers), "1 partly", `Partly ready Leftovers ${leftovers.message}`);
    await is(only({ consumers: [missing] }), "1 partly", "Partly ready Synced 3 ready endpoints are missing in member2");
  });
}

export async function suspended_deletions_and_unserved_clusters_are_partial(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    const { page } = watched;
    const is = async (more, row, message) => {
      fixture.change({ clusters: [data.cluster("member1", more)] });
      await watched.go("#/table");
      await watched.says(message);
      const cells = page.locator("section[aria-labelledby='members'] tr:has(a[href='#/clusters/member1']) td:nth-child(4)");
      assert.equal(await cells.innerText().then((text) => text.replaceAll(/\s+/g, " ").trim()), row);
      assert.equal(await cells.locator(".mark.partial").count(), 1);
      await watched.go("#/clusters/member1");
      await watched.says(message);
    };
    const gone = "3 of 3 Services are missing";
    await is({ deletionsSuspended: gone }, `Ready, deletions suspended Synced ${gone}`, gone);
    const report = "report its credentials to the hub";
    const pull = { state: "NotReady", reason: "PullWithoutCredentials", message: report, syncMode: "Pull" };
    await is(pull, `Not served PullWithoutCredentials ${report}`, report);
  });
}

export async function commands_are_copied_without_the_words_around_them(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  const options = { permissions: ["clipboard-read", "clipboard-write"] };
  await shown(browser, fixture, options, async (watched) => {
    await watched.go("#/shop/cart");
    await watched.says("ForeignService");
    const copies = watched.page.getByRole("button", { name: /^Copy command/ });
    assert.equal(await copies.count(), 2);
    for (const [at, command] of ["kubectl -n shop edit service cart", "kubectl -n shop delete service cart"].entries()) {
      await copies.nth(at).click();
      await watched.becomes(async (wanted) => (await navigator.clipboard.readText()) === wanted, command);
    }
    await watched.says("Copied");
  });
}

export async function commands_end_before_the_words_behind_them(browser, fixture) {
  await shownReady(browser, fixture, async (watched, foo) => {
    for (const [remedy, command] of [
      ["look (kubectl -n fleet get clusterprofile b -o yaml), the plugin or Secret", "kubectl -n fleet get clusterprofile b -o yaml"],
      ["remove that one (kubectl mcs unjoin b)", "kubectl mcs unjoin b"],
      ["kubectl annotate cluster b note=(c)", "kubectl annotate cluster b note=(c)"],
      ["kubectl get pods -l 'app in (b)', in b", "kubectl get pods -l 'app in (b)'"],
      ["in b: kubectl get endpointslices -o yaml; it names them", "kubectl get endpointslices -o yaml"],
    ]) {
      const wrong = { reason: "Leftovers", message: "objects are left in member2", remedy };
      fixture.explain("shop/foo", data.explanation(foo, (made) => Object.assign(made, { ready: false, diagnoses: [wrong] })));
      await watched.becomes((wanted) => document.querySelector(".problems .remedy code")?.textContent === wanted, command);
    }
  });
}

/** What can be used in the view, by a name. */
function usable() {
  const all = document.querySelectorAll("a[href], button, input, select, [tabindex='0']");
  const name = (one, at) => {
    one.dataset.tour = `${at}`;
    return one.dataset.tour;
  };
  return [...all].filter((one) => one.checkVisibility()).map(name);
}

export async function the_keyboard_alone_reaches_everything(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    const { page } = watched;
    for (const [name, hash, text] of PLACES) {
      await watched.go(hash);
      await watched.says(text);
      const left = new Set(await page.evaluate(usable));
      const count = left.size;
      await page.evaluate(() => document.activeElement?.blur());
      for (let at = 0; at < count + 5 && left.size > 0; at += 1) {
        await page.keyboard.press("Tab");
        left.delete(await page.evaluate(() => document.activeElement?.dataset.tour));
      }
      const missed = await page.evaluate((all) => all.map((one) => document.querySelector(`[data-tour="${one}"]`)?.outerHTML), [...left]);
      assert.deepEqual(missed, [], `${name}: not reached by Tab`);
    }
    await watched.go("#/");
    await page.getByRole("button", { name: /^Cluster member1/ }).focus();
    await page.keyboard.press("Enter");
    await watched.says("Provides to");
    const before = await page.evaluate(() => document.querySelector(".plane").style.transform);
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("+");
    await watched.becomes((was) => document.querySelector(".plane").style.transform !== was, before);
    await page.keyboard.press("0");
    await watched.becomes((was) => document.querySelector(".plane").style.transform === was, before);
    await page.keyboard.press("Escape");
    await watched.says("Overview");
    await page.getByRole("button", { name: /^Cluster member1/ }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Details" }).getByRole("link", { name: "member1" }).focus();
    await page.keyboard.press("Enter");
    await watched.says("Conditions");
    await watched.becomes(() => document.activeElement?.id === "main");
  });
}

export async function places_can_be_shared_and_filters_are_part_of_them(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    const { page } = watched;
    await watched.go("#/table");
    await page.getByRole("searchbox").fill("Kafka");
    await watched.says("1 service found");
    await page.getByRole("link", { name: "Map" }).click();
    await watched.says("1 service found");
    await page.getByLabel("Namespace").selectOption("data");
    await page.waitForURL(/#\/\?q=Kafka&ns=data$/);
    const other = await Watched.open(browser, page.url());
    await other.says("1 service found");
    await other.close();
    await page.getByRole("button", { name: "Clear" }).first().click();
    await page.waitForURL(/#\/$/);
  });
}

export async function dark_and_light_can_be_chosen_and_motion_left_out(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  await shown(browser, fixture, { colorScheme: "light", reducedMotion: "reduce" }, async (watched) => {
    const { page } = watched;
    const light = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const isLight = (wanted) => getComputedStyle(document.documentElement).backgroundColor === wanted;
    const isDark = (other) => getComputedStyle(document.documentElement).backgroundColor !== other;
    await page.getByLabel("Colours").selectOption("dark");
    await watched.becomes(isDark, light);
    await page.reload();
    await watched.says("Overview");
    assert.ok(await page.evaluate(isDark, light), "dark is remembered");
    await page.getByLabel("Colours").selectOption("light");
    await watched.becomes(isLight, light);
    await watched.go("#/table");
    await watched.says("data/kafka");
    fixture.change({ services: fixture.state.services.map((one) => ({ ...one, ports: ["https 443"], reason: "Changed" })) });
    await watched.says("Changed");
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  });
}

export async function hostile_names_are_text(browser, fixture) {
  fixture.state = data.hostile();
  await fixture.start();
  const { clusters, services } = fixture.state;
  const [service] = services;
  const places = [
    "#/", "#/?as=list", "#/table", `#/?sel=${encodeURIComponent(`cluster/${clusters[0].name}`)}`,
    `#/${encodeURIComponent(service.namespace)}/${encodeURIComponent(service.name)}`,
    `#/${encodeURIComponent(services[1].namespace)}/${encodeURIComponent(services[1].name)}`,
    `#/clusters/${encodeURIComponent(clusters.at(-1).name)}`,
    `#/clusters/${encodeURIComponent(data.HOSTILE)}`,
    `#/?q=${encodeURIComponent(data.HOSTILE)}&ns=${encodeURIComponent(data.HOSTILE)}&sel=${encodeURIComponent(data.HOSTILE)}&open=%25E0%25A4%25A&sort=constructor`,
  ];
  for (const viewport of [WIDE, NARROW]) {
    await shown(browser, fixture, { viewport }, async (watched) => {
      for (const hash of places) {
        await watched.go(hash);
        await watched.says("<img src=x onerror");
        const made = await watched.page.evaluate(
          () => document.querySelectorAll("img, iframe, form, object, body script, [onerror], [style*=url], a[href]:not([href^='#'])").length,
        );
        assert.equal(made, 0, `elements that nobody wrote, at ${hash}`);
        await watched.assertFits(hash);
        if (viewport === WIDE) await watched.axe(`hostile names, ${hash}`);
      }
      await watched.go(places[4]);
      await watched.says("<img src=x onerror");
      await watched.picture(`hostile-${viewport.width}`);
    });
  }
}

/** The frames that were drawn while something happened. */
async function frames(page, during) {
  await page.evaluate(() => {
    window.frames_ = [];
    const next = (now) => {
      window.frames_.push(now);
      window.frame = requestAnimationFrame(next);
    };
    window.frame = requestAnimationFrame(next);
  });
  await during();
  const times = await page.evaluate(() => {
    cancelAnimationFrame(window.frame);
    return window.frames_;
  });
  const gaps = times.slice(1).map((one, at) => one - times[at]).sort((a, b) => a - b);
  const rate = (1_000 * gaps.length) / gaps.reduce((sum, one) => sum + one, 0);
  return `${rate.toFixed(0)} frames a second, 95 of 100 within ${gaps[Math.floor(gaps.length * 0.95)].toFixed(0)} ms`;
}

async function dragged(page) {
  const { x, y, width, height } = await page.locator(".frame").boundingBox();
  await page.mouse.move(x + width * 0.5, y + 12);
  await page.mouse.down();
  for (let step = 0; step <= 120; step += 1) {
    const angle = (step / 120) * 4 * Math.PI;
    await page.mouse.move(x + width * (0.5 + 0.2 * Math.sin(angle)), y + 12 + height * 0.25 * (1 - Math.cos(angle)));
  }
  await page.mouse.up();
}

export async function a_hundred_clusters_and_a_thousand_services_stay_fluid(browser, fixture) {
  fixture.state = data.large();
  await fixture.start();
  for (const colorScheme of ["light", "dark"]) {
    await shown(browser, fixture, { colorScheme }, async (watched) => {
      const { page } = watched;
      for (const [name, hash] of [["regions", "#/"], ["opened", "#/?open=eu-west"], ["clusters", "#/?group=clusters"]]) {
        await watched.go(hash);
        await watched.says("1,000");
        await watched.picture(`large-${name}-${colorScheme}`);
        if (colorScheme === "dark") continue;
        await watched.axe(`large map, ${name}`);
        const rate = await frames(page, () => dragged(page));
        await page.mouse.move(2, 2);
        console.log(`  100 clusters, 1,000 services, ${name}: dragging the map, ${rate}`);
      }
      await watched.go("#/?group=clusters&sel=cluster%2Fmember5");
      await watched.says("Provides to");
      await watched.picture(`large-chosen-${colorScheme}`);
    });
  }
  await shown(browser, fixture, {}, async (watched) => {
    for (const [name, hash, where] of [["map", "#/?group=clusters&state=not-ready", "#details"], ["table", "#/table", "main"]]) {
      await watched.go(hash);
      const times = [];
      for (let round = 0; round < 5; round += 1) {
        const text = `Changed${name}${round}`;
        const painted = await watched.whenPainted(where, text);
        const changed = { ...fixture.state.services[0], state: "NotReady", reason: text };
        const sent = fixture.change({ services: [changed] });
        times.push((await painted.at()) - sent);
      }
      console.log(`  100 clusters, 1,000 services, ${name}: from an event to the changed page ${times.join(", ")} ms`);
      assert.ok(Math.min(...times) < 1_000 * 30, "within a generous deadline");
    }
    await watched.picture("large-table");
  });
}

export async function arcs_name_their_networks_and_paths(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    for (const [hash, text] of [
      ["#/?sel=cluster%2Fmember4&to=cluster%2Fmember1", "the unnamed network to network edge, by node ports"],
      ["#/?sel=cluster%2Fmember1&to=cluster%2Fmember2", "pods of one network"],
      ["#/?sel=cluster%2Fmember2&to=cluster%2Fmember4", "network edge to the unnamed network, without a declared way"],
      ["#/?as=list", "the unnamed network to network edge, by node ports"],
    ]) {
      await watched.go(hash);
      await watched.says(text);
    }
  });
}

export async function problem_of_one_provider_leaves_arcs_of_others_ready(browser, fixture) {
  fixture.state = data.small();
  const late = { reason: "Progressing", message: "member2 has no copy of it yet", remedy: "wait a moment" };
  const [ready, partly, bad] = ["Ready", "Partly ready, changing or unknown", "Not ready"];
  const of = (more) => {
    const made = data.service("shop", "foo", [["member1", 2], ["member3", 2]], ["member2"]);
    return { ...made, consumers: [{ ...made.consumers[0], ...more }] };
  };
  fixture.state.services = [of({})];
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    await watched.go("#/?as=list");
    const is = async (more, wanted) => {
      fixture.change({ services: [of(more)] });
      await watched.becomes((wanted) => {
        const rows = [...document.querySelectorAll(".list tbody tr")];
        const state = (name) => rows.find((row) => row.cells[0].innerText.trim() === name)?.lastElementChild.innerText.trim();
        return state("member1") === wanted[0] && state("member3") === wanted[1];
      }, wanted);
    };
    await is({}, [ready, ready]);
    await is({ endpoints: 2, ready: 2, missing: 2, missingOf: { member3: 2 }, problem: late, problemOf: ["member3"] }, [ready, bad]);
    await is({ problem: late, problemOf: ["member3"] }, [ready, partly]);
    await is({ problem: late }, [partly, partly]);
  });
}

/** Place of the arc between two clusters. */
const arcs = (from, to) => `#/?sel=cluster%2F${from}&to=cluster%2F${to}`;

/** Points at the map until a tip says it: an arc crosses the line in the middle between its two nodes somewhere. */
async function tip(watched, from, to, wanted) {
  const { page } = watched;
  const middle = async (name) => {
    const box = await page.locator(`.node[data-id="cluster/${name}"]`).boundingBox();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };
  const [[x0, y0], [x1, y1]] = [await middle(from), await middle(to)];
  const length = Math.hypot(x1 - x0, y1 - y0);
  const said = new Set();
  for (let step = 0; step < 160; step += 1) {
    const away = 4 * Math.ceil(step / 2) * (step % 2 === 0 ? 1 : -1);
    await page.mouse.move((x0 + x1) / 2 + (away * (y1 - y0)) / length, (y0 + y1) / 2 - (away * (x1 - x0)) / length);
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    for (const text of await page.locator(".tip").allTextContents()) said.add(text);
    if ([...said].some((text) => text.startsWith(`${from} \u2192 ${to}:`) && wanted.test(text))) return;
  }
  assert.fail(`no tip of ${from} to ${to} says ${wanted}: ${[...said].join(" | ")}`);
}

export async function reported_paths_are_shown_and_change_without_a_reload(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  const [member1, member2, member3] = fixture.state.clusters;
  await shown(browser, fixture, {}, async (watched) => {
    for (const [hash, texts] of [
      [arcs("member1", "member2"), ["Reported by causeway-agent", "Answers", "for 3h10m"]],
      [arcs("member4", "member3"), ["Does not answer", "for 7m"]],
      [arcs("member1", "member3"), ["Unknown"]],
      ["#/?as=list", ["Reported path", "Answers", "for 3h10m", "Does not answer", "for 7m", "Unknown", "no report"]],
      ["#/shop/foo", ["Paths reported by causeway-agent", "Answers", "for 3h10m", "Unknown"]],
    ]) {
      await watched.go(hash);
      for (const text of texts) await watched.says(text);
      await watched.axe(`reported paths, ${hash}`);
    }
    await watched.go(arcs("member1", "member4"));
    await watched.saysNoMore("Reported by causeway-agent");

    await watched.go("#/");
    await tip(watched, "member1", "member2", /, reported good since [0-9]/);
    await tip(watched, "member4", "member3", /, reported bad since [0-9].*\. Not ready$/);
    await tip(watched, "member1", "member3", /, reported unknown$/);
    await watched.page.mouse.move(1, 1);

    await watched.go(arcs("member1", "member2"));
    await watched.says("for 3h10m");
    fixture.change({ clusters: [{ ...member2, paths: [] }] });
    await watched.says("Unknown");
    fixture.change({ clusters: [{ ...member2, paths: undefined }] });
    await watched.saysNoMore("Reported by causeway-agent");
    fixture.change({ clusters: [{ ...member2, paths: [{ cluster: "member1", path: "<b>", since: "<b>" }] }] });
    await watched.says("Unknown");
    fixture.change({ clusters: [{ ...member2, paths: [{ cluster: "member1", path: "bad", since: new Date().toISOString() }] }] });
    await watched.says("Does not answer");
    await watched.go(arcs("member4", "member3"));
    fixture.change({ clusters: [member1, { ...member3, paths: [{ cluster: "member4", path: "good", since: new Date().toISOString() }] }] });
    await watched.says("Answers");
  });
}

export async function small_names_are_shown_whole_and_legible_when_pointed_at(browser, fixture) {
  const large = data.large(100, 200);
  fixture.state = { ...large, clusters: large.clusters.map((one) => ({ ...one, region: undefined })) };
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    await watched.go("#/?group=clusters");
    const node = watched.page.locator(".node", { hasText: "member57" }).first();
    for (const point of [() => node.focus(), () => node.hover()]) {
      await watched.page.keyboard.press("-");
      await watched.page.keyboard.press("-");
      await watched.page.keyboard.press("-");
      await point();
      const tip = watched.page.locator(".tip");
      assert.equal(await tip.textContent(), "member57");
      const size = await tip.evaluate((one) => parseFloat(getComputedStyle(one).fontSize));
      assert.ok(size >= 12, `${size}`);
      await watched.page.keyboard.press("0");
      await node.blur();
      await watched.page.mouse.move(1, 1);
    }
  });
}

/** State of the line that begins with a text, among the results of verify. */
async function outcome(watched, text) {
  const line = watched.page.locator(".outcome", { hasText: text });
  return (await line.getAttribute("class")).replace("outcome ", "");
}

export async function unknown_outcomes_of_verify_are_partial(browser, fixture) {
  await shownReady(browser, fixture, async (watched, foo) => {
    const summary = "nothing is known to fail; the outcome of 1 of 4 paths is unknown";
    const is = async (state, results, untried = undefined) => {
      const time = new Date().toISOString();
      fixture.explain("shop/foo", data.explanation(foo, (made) => Object.assign(made, { verified: { time, summary: `${state}: ${summary}`, results, untried } })));
      await watched.says(`${state}: ${summary}`);
      assert.equal(await outcome(watched, summary), state);
    };
    await is("ok", [{ from: "member2", works: 4, tried: 4 }]);
    await is("partial", [{ from: "member2", works: 3, tried: 4, unknown: 1 }]);
    await watched.axe("a result with unknown outcomes");
    await is("ok", [{ from: "member2", works: 4, tried: 4 }]);
    await is("partial", [{ from: "member2", works: 4, tried: 4 }], 1);
    await is("bad", [{ from: "member2", works: 2, tried: 4, unknown: 1, problem: "timeout" }]);
  });
}

export async function run_whose_result_is_not_stored_is_shown(browser, fixture) {
  const at = (second) => new Date(Date.UTC(2026, 10, 20, 12, 0, second)).toISOString();
  await shownReady(browser, fixture, async (watched, foo) => {
    const ran = (last) => fixture.change({ server: { ...data.SERVER, verify: { last: { service: "shop/foo", time: at(30), works: true, fails: false, untried: [], ...last } } } });
    const stored = (second, results) => {
      const verified = { time: at(second), summary: `result of second ${second}`, results };
      fixture.explain("shop/foo", data.explanation(foo, (made) => Object.assign(made, { verified })));
      return watched.says(`result of second ${second}`);
    };
    ran({ summary: "everything works" });
    await watched.says("everything works");
    await watched.saysNoMore("Never verified");
    assert.equal(await outcome(watched, "Run of"), "ok", "nothing is stored");
    await stored(20, [{}]);
    assert.equal(await outcome(watched, "Run of"), "ok", "an older result is stored");
    ran({ summary: "not everything was tried", untried: ["the result of shop/foo is not stored on the hub: forbidden"] });
    await watched.says("is not stored on the hub: forbidden");
    assert.equal(await outcome(watched, "Run of"), "partial");
    ran({ summary: "no answer", works: false });
    await watched.saysNoMore("is not stored on the hub");
    assert.equal(await outcome(watched, "Run of"), "partial", "an outcome is unknown");
    ran({ summary: "a timeout", works: false, fails: true });
    await watched.says("a timeout");
    assert.equal(await outcome(watched, "Run of"), "bad");
    ran({ summary: "everything works" });
    await watched.saysNoMore("a timeout");
    await stored(31, [{}]);
    await watched.saysNoMore("Run of");
    ran({ summary: "no answer", works: false });
    await stored(32, [{ unknown: 1 }]);
    await watched.says("Run of");
    assert.equal(await outcome(watched, "Run of"), "partial", "nothing is known to fail");
    await stored(33, [{ problem: "timeout" }]);
    assert.equal(await outcome(watched, "Run of"), "bad");
  });
}

export async function verify_is_started_where_the_server_offers_it(browser, fixture) {
  fixture.state = data.small();
  await fixture.start();
  await shown(browser, fixture, {}, async (watched) => {
    await watched.go("#/shop/foo");
    await watched.says("Never verified");
    const button = watched.page.getByRole("button", { name: "Verify from pods" });
    assert.equal(await button.count(), 0, "without --verify");
    const server = (verify) => ({ ...data.SERVER, verify });
    fixture.change({ server: server({}) });
    await Promise.all([watched.page.waitForResponse(/\/verify$/), button.click()]);
    assert.deepEqual(fixture.posted, ["api/services/shop/foo/verify"]);
    const since = new Date().toISOString();
    fixture.change({ server: server({ running: { service: "shop/foo", since, step: "dialling 4 paths from 2 pods" } }) });
    await watched.says("dialling 4 paths from 2 pods");
    assert.ok(await button.isDisabled());
    await watched.axe("verify runs");
    const last = { service: "shop/foo", time: since, works: false, fails: true, summary: "from member2 to pods of member1 0 of 3 work (timeout)", untried: ["edge: no context"] };
    fixture.change({ server: server({ last }) });
    await watched.says("0 of 3 work (timeout)");
    await watched.says("edge: no context");
    assert.equal(await outcome(watched, "Run of"), "bad");
    watched.expected = /409/;
    fixture.refusal = "a run is active";
    await button.click();
    await watched.says("a run is active");
  });
}
