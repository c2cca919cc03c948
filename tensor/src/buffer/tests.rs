use proptest::prelude::*;

use super::*;

fn place(pool: &mut Pool, lines: usize) -> Span {
    pool.take(lines * LINE).0
}

#[test]
fn a_freed_range_joins_its_neighbours_and_serves_another_length() {
    let mut pool = Pool::new();
    let [a, b, c, d] = [3, 1, 2, 5].map(|n| place(&mut pool, n));
    assert_eq!([a, b, c, d].map(|p| (p.slab, p.offset / LINE)), [(0, 0), (0, 3), (0, 4), (0, 6)]);
    // Frees a and c, then b between them: the 6 lines before d become one range.
    pool.give(a);
    pool.give(c);
    pool.give(b);
    assert_eq!((pool.free.len(), pool.live), (2, 5 * LINE));
    assert_eq!((place(&mut pool, 6).offset, place(&mut pool, 1).offset / LINE), (0, 11));
    pool.give(d);
    assert_eq!(place(&mut pool, 5), d);
    assert_eq!((pool.slabs.len(), pool.slabs[0].reached, pool.peak), (1, 12 * LINE, 12 * LINE));
}

#[test]
fn ranges_of_two_slabs_are_not_joined() {
    let mut pool = Pool::new();
    let lines = *SLAB.start() / LINE;
    let [a, b, c] = [lines, 2 * lines, 1].map(|n| place(&mut pool, n));
    assert_eq!([a.slab, b.slab, c.slab], [0, 1, 2]);
    [a, b, c].into_iter().for_each(|p| pool.give(p));
    assert_eq!(pool.free.values().sum::<usize>(), 6 * lines * LINE);
    assert_eq!((pool.free.len(), place(&mut pool, lines + 1).slab), (3, 1));
}

/// Steps that allocate and free in the same order get the same places from the second step on, and the pool stops growing.
#[test]
fn equal_steps_reuse_the_same_places() {
    let mut pool = Pool::new();
    let lasting = place(&mut pool, 1000);
    let step = |pool: &mut Pool| {
        let mut saved: Vec<Span> = (0..200).map(|i| place(pool, 1 + i * i % 701)).collect();
        let mut places = saved.clone();
        while let Some(p) = saved.pop() {
            pool.give(p);
            places.push(place(pool, 1 + p.bytes / LINE * 3 / 2));
        }
        places[200..].iter().for_each(|&p| pool.give(p));
        places
    };
    let (_, second) = (step(&mut pool), step(&mut pool));
    let slabs = pool.slabs.len();
    for _ in 0..3 {
        assert_eq!(step(&mut pool), second);
    }
    assert_eq!((pool.slabs.len(), pool.live), (slabs, lasting.bytes));
}

#[test]
fn buffers_do_not_overlap() {
    let mut held: Vec<(f64, Buffer<f64>)> = Vec::new();
    let mut state = 1usize;
    for step in 0..3000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if held.len() > 40 {
            let (value, buffer) = held.swap_remove((state >> 33) % 40);
            assert!(buffer.iter().all(|&x| x == value));
        }
        let mut buffer = Buffer::recycled((state >> 40) % 3000);
        assert_eq!(buffer.as_ptr() as usize % LINE, 0);
        buffer.fill(f64::from(step));
        held.push((f64::from(step), buffer));
    }
}

/// An event of a pool. Indices count the places in use.
#[derive(Clone, Debug)]
enum Event {
    Take(usize),
    Give(usize),
    Write(usize, u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    // A few lines, hundreds of lines, or about the size of a slab.
    let lines = prop_oneof![6 => 1..9usize, 3 => 9..700usize, 1 => (1usize << 13)..(1 << 15)];
    let event = prop_oneof![
        3 => lines.prop_map(Event::Take),
        2 => any::<usize>().prop_map(Event::Give),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(i, pattern)| Event::Write(i, pattern)),
    ];
    proptest::collection::vec(event, 1..80)
}

/// A place in use, its memory, and the last pattern written to it.
struct Used {
    place: Span,
    first: NonNull<u8>,
    pattern: u8,
}

impl Used {
    fn write(&mut self, pattern: u8) {
        self.pattern = pattern;
        // SAFETY: the place is in use, and no other reference to it exists.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.place.bytes) }.fill(pattern);
    }

    fn is_as_written(&self) -> bool {
        // SAFETY: as in `write`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.place.bytes) }.iter().all(|&x| x == self.pattern)
    }
}

/// Checks that free and used ranges tile every slab, that no two free ranges are adjacent, and that the counts match the ranges.
fn check(pool: &Pool, used: &[Used], peak: usize) -> Result<(), TestCaseError> {
    let mut ranges: Vec<(usize, usize, usize, bool)> = pool.free.iter().map(|(&(s, at), &n)| (s, at, n, true)).collect();
    ranges.extend(used.iter().map(|u| (u.place.slab, u.place.offset, u.place.bytes, false)));
    ranges.sort_unstable();
    for (slab, memory) in pool.slabs.iter().enumerate() {
        let (mut end, mut was_free) = (0, false);
        for &(_, at, bytes, free) in ranges.iter().filter(|range| range.0 == slab) {
            prop_assert_eq!(at, end, "a gap or an overlap in slab {}", slab);
            prop_assert!(!(free && was_free), "free ranges touch at {} of slab {}", at, slab);
            prop_assert!(free || at + bytes <= memory.reached);
            (end, was_free) = (at + bytes, free);
        }
        prop_assert_eq!(end, memory.bytes);
    }
    let live: usize = used.iter().map(|u| u.place.bytes).sum();
    prop_assert_eq!((pool.live, pool.peak), (live, peak));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// In any order of events, no two places overlap and written patterns stay. At the end every slab is one free range.
    #[test]
    fn a_pool_gives_each_byte_to_one_place(events in events()) {
        let (mut pool, mut used, mut peak) = (Pool::new(), Vec::<Used>::new(), 0);
        for event in events {
            match event {
                Event::Take(lines) => {
                    let fit = pool.free.iter().find(|(_, free)| **free >= lines * LINE).map(|(&at, _)| at);
                    let (place, first) = pool.take(lines * LINE);
                    prop_assert_eq!(fit.unwrap_or((pool.slabs.len() - 1, 0)), (place.slab, place.offset), "the first that fits");
                    prop_assert_eq!((place.bytes, first.as_ptr() as usize % LINE), (lines * LINE, 0));
                    let mut new = Used { place, first, pattern: 0 };
                    new.write(used.len() as u8);
                    used.push(new);
                }
                Event::Give(i) if !used.is_empty() => {
                    let gone = used.swap_remove(i % used.len());
                    prop_assert!(gone.is_as_written());
                    pool.give(gone.place);
                }
                Event::Write(i, pattern) if !used.is_empty() => {
                    let n = used.len();
                    used[i % n].write(pattern);
                }
                Event::Give(_) | Event::Write(..) => {}
            }
            peak = peak.max(used.iter().map(|u| u.place.bytes).sum());
            check(&pool, &used, peak)?;
        }
        prop_assert!(used.iter().all(Used::is_as_written));
        used.drain(..).for_each(|u| pool.give(u.place));
        check(&pool, &[], peak)?;
        prop_assert_eq!(pool.free.len(), pool.slabs.len());
    }

    /// Buffers of both float types on three threads at once, and scratch memory of kernels, do not overlap.
    #[test]
    fn buffers_of_several_threads_do_not_overlap(plans in proptest::collection::vec(events(), 3)) {
        fn run<T: crate::simd::Float>(events: &[Event], mark: f64) {
            let holds = |buffer: &[T], mark: T| buffer.iter().all(|&x| x == mark);
            let mut held: Vec<(T, Buffer<T>)> = Vec::new();
            for (step, event) in events.iter().enumerate() {
                let mark = T::lit(mark + step as f64);
                match *event {
                    Event::Take(n) => {
                        let mut buffer = Buffer::recycled(n - 1);
                        assert_eq!((buffer.len(), buffer.as_ptr() as usize % LINE), (n - 1, 0));
                        buffer.fill(mark);
                        held.push((mark, buffer));
                    }
                    Event::Give(i) if !held.is_empty() => {
                        let (mark, buffer) = held.swap_remove(i % held.len());
                        assert!(holds(&buffer, mark));
                    }
                    Event::Write(i, n) => with_scratch(usize::from(n), |scratch| {
                        scratch.fill(mark);
                        if let Some((new, buffer)) = held.get_mut(i % 8) {
                            buffer.fill(mark);
                            *new = mark;
                        }
                        assert!(holds(scratch, mark));
                    }),
                    Event::Give(_) => {}
                }
            }
            assert!(held.iter().all(|(mark, buffer)| holds(buffer, *mark)));
        }
        std::thread::scope(|scope| {
            for (i, events) in plans.iter().enumerate() {
                let run = [run::<f32>, run::<f64>][i % 2];
                scope.spawn(move || run(events, 1000.0 * (i + 1) as f64));
            }
        });
    }
}
