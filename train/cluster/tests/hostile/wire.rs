//! Processes of the run that send invalid data: the run ends for all, with an error that names the sender.

use std::net::Shutdown;
use std::time::Instant;

use gradus_tensor::rng::Philox;
use gradus_tests::allocations::most_held;

use crate::links::{Links, NUMBERS, PROCESSES, RUN, harmed, word};
use crate::{alone, panics, seed, tries, with_others};

/// The number of concurrent runs.
const AT_ONCE: usize = 25;

/// A message head: run, number, and kind, node, piece, pieces.
#[derive(Clone, Copy)]
struct Head(u64, u64, [u32; 4]);

const PART: u32 = 1;
const TOTAL: u32 = 2;
const WORDS: u32 = 3;
const BROADCAST: u32 = 4;
const COLLECTED: u32 = 5;

fn frame(number: u64, contents: &[u8]) -> Vec<u8> {
    let sum = crc32fast::hash(&[&number.to_le_bytes()[..], contents].concat());
    [&(contents.len() as u32).to_le_bytes()[..], &sum.to_le_bytes(), contents].concat()
}

/// Returns the engine's header followed by the contents it announces.
fn engine(header: [u64; 6], contents: &[u8]) -> Vec<u8> {
    [header.map(u64::to_be_bytes).as_flattened(), contents].concat()
}

fn message([from, to]: [u64; 2], Head(run, number, words): Head, contents: &[u8]) -> Vec<u8> {
    let head = [&run.to_le_bytes()[..], &number.to_le_bytes(), words.map(u32::to_le_bytes).as_flattened(), contents].concat();
    engine([from, from, to, to + 1, head.len() as u64, 0], &head)
}

/// Returns each message in a separate frame.
fn frames(messages: &[Vec<u8>]) -> Vec<u8> {
    messages.iter().enumerate().flat_map(|(i, message)| frame(i as u64, message)).collect()
}

/// Draws damaged frames, or frames that would harm the engine, with the expected error.
fn damaged(rng: &mut Philox, way: [u64; 2]) -> (Vec<u8>, &'static str) {
    let [from, to] = way;
    let sound = frame(0, &message(way, Head(RUN, 0, [WORDS, 0, 0, 1]), &[7; 40]));
    let flipped = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    };
    let random: Vec<u8> = (0..400).map(|_| rng.word() as u8).collect();
    let headers = [
        [to, from, to, to + 1, 40, 0],
        [from, to, to, to + 1, 40, 0],
        [from, from, 0, PROCESSES as u64, 40, 0],
        [from, from, u64::MAX, 0, 40, 0],
        [from, from, to, to + 1, u64::MAX, 0],
        [from, from, to, to + 1, 1 << 32, 0],
        [from, from, to, to + 1, 31, 0],
        [from, from, to, to + 1, 0, 0],
        [rng.double_word(); 6],
    ];
    match rng.below(10) {
        0 => ([&[0xff, 0xff, 0xff, 0xff][..], &random].concat(), "sent a frame of 4294967295 bytes"),
        1 => ([&[1, 0, 16, 0][..], &random].concat(), "sent a frame of 1048577 bytes"),
        2 => (vec![0; 8], "sent a frame of 0 bytes"),
        3 => (flipped(4 + rng.below(sound.len() as u64 - 4) as usize), "frame 0 from"),
        4 => (frame(1 + rng.below(9), &sound[8..]), "frame 0 from"),
        5 => (sound.repeat(2), "frame 1 from"),
        6 => (frames(&[engine([0; 6], &[]), sound[8..].to_vec()]), "a message after the last"),
        7 => (frames(&[[engine([0; 6], &[]), random].concat()]), "a message after the last"),
        _ => (frames(&[engine(headers[rng.below(9) as usize], &[0; 40])]), "sent invalid data: a message of "),
    }
}

/// Draws intact frames with invalid messages, with the expected error, or two alternatives.
fn nonsense(rng: &mut Philox, way: [u64; 2]) -> (Vec<u8>, &'static str) {
    let numbers = [7; 4 * NUMBERS];
    let sum = |kind, node, piece, pieces| message(way, Head(RUN, 1, [kind, node, piece, pieces]), &numbers);
    let words = |number, piece, pieces| message(way, Head(RUN, number, [WORDS, 0, piece, pieces]), &[7; 20]);
    let (own, far) = (way[0] as u32, 1 + rng.word() / 2);
    let (expected, messages) = match rng.below(18) {
        0 => ("a message of another run", vec![message(way, Head(RUN ^ 1 << rng.below(64), 1, [PART, own, 0, 1]), &numbers)]),
        1 => ("without a valid header", vec![sum(6 + far, own, 0, 1)]),
        2 => ("without a valid header", vec![sum(0, own, 0, 1)]),
        3 => ("all-gather ", vec![words(2 + rng.below(1 << 60), 0, 1)]),
        4 => ("piece ", vec![words(0, far, 1 + far)]),
        5 => ("piece 0 of 4294967295; expected piece 0 of", vec![words(0, 0, u32::MAX)]),
        6 => ("piece 0 of 0; expected piece 0 of 0", vec![words(0, 0, 0)]),
        7 => ("piece 0 of 1; expected piece 1 of 1", vec![words(0, 0, 1), words(0, 0, 1)]),
        8 => ("piece 1 of 3; expected piece 1 of 2", vec![words(0, 0, 2), words(0, 1, 3)]),
        9 => ("broadcast 16", vec![message(way, Head(RUN, 16, [BROADCAST, 0, 0, 1]), b"null")]),
        10 => ("expected 1 pieces", vec![sum(PART, 5 + far, 0, 1)]),
        11 => ("expected 1 pieces", vec![sum(PART, own, far, 1 + far)]),
        12 => ("expected 1 pieces", vec![sum(PART, own, 0, 1 + far)]),
        13 => ("bytes for piece 0; expected 5 numbers", vec![message(way, Head(RUN, 1, [PART, own, 0, 1]), &[7; 21])]),
        // If the other parts have arrived, the sum is complete before the second message.
        14 => ("which was not expected from it|which is not in progress", vec![sum(PART, own, 0, 1), sum(PART, own, 0, 1)]),
        15 => ("gather 99; expected ", vec![message(way, Head(RUN, 99, [COLLECTED, 0, 0, 1]), &[7; 20])]),
        16 => ("", vec![sum(TOTAL, 4, 0, 1), sum(TOTAL, 4, 0, 1)]),
        _ => ("which is not in progress", vec![message(way, Head(RUN, 3 + u64::from(far), [PART, own, 0, 1]), &numbers)]),
    };
    (frames(&messages), expected)
}

/// Sends invalid data on a data connection.
fn harm_data(rng: &mut Philox, links: &mut Links) -> &'static str {
    // Process 0 gives the verdict; if it is the false one, each of the others must detect the fault.
    let others = links.others();
    let kind = rng.below(20);
    let to = if links.me == 0 || kind == 1 { others } else { vec![others[rng.below(2) as usize]] };
    let position = rng.position();
    let mut expected = "";
    for to in to {
        rng.set_position(position);
        let way = [links.me, to].map(|process| process as u64);
        let (bytes, words) = match kind {
            0 => (frames(&[message(way, Head(RUN, 0, [WORDS, 0, 0, 1]), &[7; 20])]), "closed the connection"),
            1 => (frames(&[engine([0; 6], &[])]), "left before the end of the run"),
            2 => (vec![9; 1 + rng.below(7) as usize], "no data from"),
            3 => (frames(&[vec![7; 400]])[..50 + rng.below(300) as usize].to_vec(), "no data from"),
            4 => (vec![], "no data from"),
            5..=10 => damaged(rng, way),
            _ => nonsense(rng, way),
        };
        links.send(to, &bytes);
        if kind < 2 {
            links.data[to].as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
        }
        expected = words;
    }
    expected
}

/// Sends invalid data on the control connection, which carries nothing else.
fn harm_control(rng: &mut Philox, links: &mut Links) -> &'static str {
    let random: Vec<u8> = (0..5000).map(|_| rng.word() as u8).collect();
    let mut damaged = word(2, b"damaged");
    damaged[rng.below(14) as usize] ^= 1 << rng.below(8);
    damaged.extend(&random);
    let out_of_turn = if links.me == 0 { word(1, b"x") } else { word(3, b"x") };
    let (bytes, expected) = match rng.below(12) {
        0 => (random, "sent invalid data"),
        1 => ([&[1, 2, 3, 4, 1, 0xff, 0xff][..], &random].concat(), "sent invalid data"),
        2 => (damaged, "sent invalid data"),
        3 => (word(9, b""), "sent invalid data"),
        4 => (word(0, &[0; 7]), "sent invalid data"),
        5 => (word(2, &[0xc0, 0x80]), "sent invalid data"),
        6 => (out_of_turn, "sent an unexpected message"),
        7 => (word(2, b"no room"), "stopped: no room"),
        8 => (vec![], "sent nothing"),
        9 => (word(0, &[0; 9])[..1 + rng.below(15) as usize].to_vec(), "sent nothing"),
        10 => (word(4, b""), "no data from"),
        _ => (vec![], "ended without reporting an error"),
    };
    links.say(&bytes);
    if expected == "ended without reporting an error" {
        links.control.iter().for_each(|(_, socket)| socket.shutdown(Shutdown::Write).unwrap());
    }
    expected
}

/// Runs one false process, drawn from a seed.
fn one(seed: u64, number: u64) {
    let mut rng = Philox::with_stream(seed, 1_000_000 + number);
    let (false_one, on_control, mut expected) = ([0, 2][rng.below(2) as usize], rng.below(3) == 0, "");
    let harm = |links: &mut Links| {
        expected = if on_control { harm_control(&mut rng, links) } else { harm_data(&mut rng, links) };
    };
    let problems = harmed(false_one, !on_control, harm);
    for problem in &problems {
        let named =
            problem.contains(&format!("process {false_one} ")) && expected.split('|').any(|expected| problem.contains(expected));
        assert!(named, "GRADUS_SEED={seed}, number {number}: expected {expected:?} of process {false_one}, found {problems:#?}");
    }
}

#[test]
fn a_process_that_sends_invalid_data_is_named_by_all() {
    let _others = with_others();
    let (seed, before, started) = (seed(), panics(), Instant::now());
    // At most 500, because the threads and sockets of such a run live as long as this test's process.
    let runs = tries().div_ceil(10).min(500);
    std::thread::scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || (first..runs).step_by(AT_ONCE).for_each(|number| one(seed, number as u64)));
        }
    });
    eprintln!("{runs} runs of {PROCESSES} processes ended by one of them, in {:?}", started.elapsed());
    assert_eq!(panics(), before);
}

#[test]
fn announced_data_allocates_no_memory_in_advance() {
    let _alone = alone();
    let before = panics();
    let way = [2, 0];
    let early = message(way, Head(RUN, 2, [PART, 2, 0, 1]), &[7; 4 * NUMBERS]);
    let cases = [
        vec![],
        (1_u32 << 20).to_le_bytes().repeat(2),
        frames(&[engine([2, 2, 0, 1, u64::MAX / 2, 0], &[])]),
        frames(&[message(way, Head(RUN, 0, [WORDS, 0, 0, 1 << 20]), &[])]),
        frames(&[message(way, Head(RUN, 1, [PART, u32::MAX, u32::MAX, u32::MAX]), &[])]),
        frames(&vec![early; 1000]),
    ];
    for (i, bytes) in cases.into_iter().enumerate() {
        let harm = |links: &mut Links| {
            links.send(0, &[&bytes[..], &[0xff; 8]].concat());
            links.data[0].as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
        };
        let held = most_held(|| drop(harmed(2, true, harm)));
        // The engine allocates 1 MiB for its reads and its writes, for each of eight directions.
        assert!(held < 16 << 20, "case {i}: {held} bytes");
    }
    assert_eq!(panics(), before);
}
