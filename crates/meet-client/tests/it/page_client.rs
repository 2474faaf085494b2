//! The page's participant, with controllers inside the page that do what a test says.

use serde_json::{Value, json};
use tenure_testkit::{Chromium, Page};

use crate::harness::Harness;

/// Evaluates `script` with a `scene` in which a participant joined on the connection `one`.
fn joined(script: &str) -> Value {
    evaluate(&format!(
        "import('/controllers.js').then(async ({{ Scene }}) => {{
           const scene = new Scene(), one = await scene.joined(); {script} }})"
    ))
}

fn evaluate(script: &str) -> Value {
    let harness = Harness::open();
    let chromium = Chromium::start().unwrap();
    let page: Page = chromium.open(&format!("{}/favicon.svg", harness.url)).unwrap();
    page.evaluate(script).unwrap()
}

/// Announces a move to the controller `two`, which is dialled.
const PREPARE: &str = "one.say({ prepare_move: { new_mc_endpoint: 'two', certificate_sha256: [], move_ticket: Uint8Array.of(9) } });
  const two = await scene.connection(2);";

#[test]
fn a_lost_controller_is_reported_and_the_answer_is_dialled() {
    let seen = joined(
        "scene.home = { mcId: 'two', url: 'two', hashes: [] };
         one.lose({ code: null, why: 'timeout: no response' });
         const two = await scene.connection(2), { binding_token, last_event_seq } = two.join.join_request;
         two.welcome(); await scene.settle();
         return [scene.reports, scene.dials, binding_token, last_event_seq, scene.states];",
    );
    let report = json!({ "mcId": "one", "reason": "TIMEOUT" });
    let states = ["live", "reconnecting", "live"];
    assert_eq!(seen, json!([[report], ["one", "two"], "from one", 7, states]));
}

#[test]
fn a_controller_that_cannot_be_dialled_is_reported_before_the_next_attempt() {
    let seen = joined(
        "scene.refusing.add('one');
         one.lose({ code: 4003, why: 'draining' }); await scene.settle();
         const before = scene.reports.length;
         scene.home = { mcId: 'two', url: 'two', hashes: [] };
         await scene.pass(200); await scene.connection(2);
         return [before, scene.reports, scene.dials];",
    );
    // A controller that says why it closes is not reported.
    let report = json!({ "mcId": "one", "reason": "CONNECTION_REFUSED" });
    assert_eq!(seen, json!([0, [report], ["one", "one", "two"]]));
}

#[test]
fn silence_is_suspected_after_a_second_and_a_loss_after_two_but_not_by_a_side_that_stood_still() {
    let found = evaluate(
        "import('/meetconnection.js').then(({ Silence }) => {
           const silent = new Silence(0), out = [];
           for (let now = 250; now <= 2500; now += 250) out.push(silent.tick(now));
           const heard = new Silence(0); heard.tick(250); heard.tick(1000); heard.hear();
           const still = new Silence(0); still.tick(250);
           return [out, heard.tick(1250), still.tick(60_000), still.tick(60_250)]; })",
    );
    let out = json!([null, null, null, null, "suspect", null, null, null, "lost", "lost"]);
    assert_eq!(found, json!([out, null, null, null]));
    let reports = joined("one.suspect(); await scene.settle(); return [scene.reports, scene.states];");
    let report = json!({ "mcId": "one", "reason": "TIMEOUT", "suspect": true });
    assert_eq!(reports, json!([[report], ["live"]]));
}

#[test]
fn reasons_are_the_words_of_the_api() {
    let words = evaluate(
        "import('/meetclient.js').then(({ reasonOf }) => ['timeout: no response', 'Connection refused', 'bad certificate', 'TLS alert', 'Opening handshake failed.'].map(reasonOf))",
    );
    assert_eq!(words, json!(["TIMEOUT", "CONNECTION_REFUSED", "TLS_ERROR", "TLS_ERROR", "UNSPECIFIED"]));
}

#[test]
fn a_participant_moves_with_its_meeting_and_then_sends_what_it_queued() {
    let seen = joined(&format!(
        "{PREPARE} const {{ move_ticket, binding_token }} = two.join.join_request;
         scene.participant.request('chat_request', {{ text: 'before' }}); await scene.settle();
         const [[first]] = one.chats; one.say({{ accepted: {{}}, seq: first }});
         one.say({{ frozen: {{ event_seq: 7 }} }}); await scene.settle();
         const sent = scene.participant.request('chat_request', {{ text: 'queued' }}); await scene.settle();
         const waiting = [one.chats.length, scene.participant.hint];
         two.welcome({{ applied_seq: first }}); await scene.settle();
         const [[number, text]] = two.chats; two.say({{ accepted: {{}}, seq: number }}); await sent;
         return [[...move_ticket], binding_token, waiting, one.closed, text, number > first, scene.states, scene.steps, scene.hints, scene.reports];"
    ));
    let steps = ["welcome", "nothing", "answer", "nothing", "moved", "answer"];
    let expected = json!([
        [9],
        "from one",
        [1, "moving"],
        true,
        "queued",
        true,
        ["live", "live"],
        steps,
        ["moving", null],
        []
    ]);
    assert_eq!(seen, expected);
}

#[test]
fn a_connection_that_ends_while_the_meeting_moves_waits_for_the_next_controller() {
    let seen = joined(&format!(
        "{PREPARE} one.lose({{ code: 4003, why: 'draining' }}); await scene.settle();
         const hint = scene.participant.hint;
         two.welcome(); await scene.settle();
         return [hint, scene.dials, scene.states, scene.participant.hint];"
    ));
    assert_eq!(seen, json!(["moving", ["one", "two"], ["live", "live"], null]));
}

#[test]
fn a_participant_whose_next_controller_does_not_answer_resumes_as_after_a_loss() {
    let seen = joined(&format!(
        "{PREPARE} one.lose({{ code: 4003, why: 'draining' }}); await scene.settle();
         await scene.pass(5_000); await scene.connection(3);
         return [two.closed, scene.dials, scene.states];"
    ));
    assert_eq!(seen, json!([true, ["one", "two", "one"], ["live", "reconnecting"]]));
}

#[test]
fn a_move_that_is_aborted_leaves_the_participant_where_it_is() {
    let seen = joined(&format!(
        "{PREPARE} scene.participant.request('chat_request', {{ text: 'refused' }}); await scene.settle();
         one.say({{ frozen: {{ event_seq: 7 }} }});
         one.say({{ error: {{ code: 9, message: 'migrating' }}, seq: one.chats[0][0] }}); await scene.settle();
         await scene.pass(500);
         const frozen = one.chats.length;
         one.say({{ thawed: {{}} }}); await scene.settle();
         const numbers = one.chats.map(([number]) => number);
         return [frozen, numbers.length, numbers[1] > numbers[0], two.closed, one.closed, scene.states, scene.hints];"
    ));
    assert_eq!(seen, json!([1, 2, true, true, false, ["live"], ["moving", null]]));
}

#[test]
fn a_participant_of_a_paused_controller_goes_to_a_later_owner() {
    let seen = joined(
        "one.say({ paused: {} }); await scene.settle(); await scene.pass(3_000);
         const stays = scene.dials.length;
         scene.admission = { ...scene.admission, mcId: 'two', url: 'two', generation: '2' };
         await scene.pass(3_000); await scene.connection(2);
         return [scene.hints, stays, scene.dials, scene.reports];",
    );
    assert_eq!(seen, json!([["paused", null], 1, ["one", "two"], []]));
}
