//! Tests of the handshake's parts over real connections.

use std::thread;

use gradus_tests::loopback;

use super::*;

fn hosts(addresses: &[&str], me: usize) -> Hosts {
    Hosts { addresses: addresses.iter().map(|&address| address.to_owned()).collect(), me }
}

fn meeting<'h>(hosts: &'h Hosts, secret: &'h Secret, within: Duration) -> Meeting<'h> {
    Meeting { hosts, secret, within, until: Instant::now() + within }
}

fn door(secret: &Secret, purpose: Purpose, digest: [u8; 32]) -> Door {
    let (inside, refused) = (Mutex::new(Some(BTreeMap::new())), AtomicUsize::new(0));
    Door { secret: secret.clone(), me: 1, processes: 4, purpose, digest, inside, refused }
}

const HELLO_OF_3: Hello =
    Hello { version: VERSION, purpose: Purpose::Data as u8, from: 3, to: 1, processes: 4, digest: [9; 32], nonce: [8; 32] };

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

#[test]
fn errors_name_what_is_missing() {
    let missing = |missing: &[usize], refused, problem: Option<&str>| {
        let problem = problem.map(io::Error::other);
        RendezvousError::Missing { missing: missing.to_vec(), within: Duration::from_secs(3), refused, problem }.to_string()
    };
    let expected = "these processes did not connect within 3 s: 1, 2; start them, or give a longer --wait";
    assert_eq!(missing(&[1, 2], 0, None), expected);
    let why = "made by another version of gradus, with another secret or another list of hosts, or by another program";
    assert_eq!(missing(&[1, 2], 1, None), format!("{expected}; 1 connection was rejected: {why}"));
    assert_eq!(missing(&[1, 2], 2, None), format!("{expected}; 2 connections were rejected: {why}"));
    let unheard = "; connections could not be accepted: too many open files";
    assert_eq!(missing(&[1, 2], 0, Some("too many open files")), format!("{expected}{unheard}"));
}

#[test]
fn a_hello_survives_serialization() {
    let bytes = HELLO_OF_3.to_bytes();
    assert_eq!(Hello::from_bytes(&bytes), Some(HELLO_OF_3));
    let other = [b"G", &bytes[1..]].concat();
    assert_eq!(Hello::from_bytes(other[..].try_into().unwrap()), None);
}

#[test]
fn a_hello_of_another_run_or_process_is_rejected() {
    let door = door(&Secret::random().unwrap(), Purpose::Data, [9; 32]);
    let refusals = [
        (HELLO_OF_3, None),
        (Hello { from: 2, ..HELLO_OF_3 }, None),
        (Hello { version: VERSION + 1, ..HELLO_OF_3 }, Some(Refusal::Version)),
        (Hello { purpose: Purpose::Control as u8, ..HELLO_OF_3 }, Some(Refusal::Digest)),
        (Hello { processes: 5, ..HELLO_OF_3 }, Some(Refusal::Digest)),
        (Hello { digest: [7; 32], ..HELLO_OF_3 }, Some(Refusal::Digest)),
        (Hello { to: 0, ..HELLO_OF_3 }, Some(Refusal::Number)),
        (Hello { from: 1, ..HELLO_OF_3 }, Some(Refusal::Number)),
        (Hello { from: 0, ..HELLO_OF_3 }, Some(Refusal::Number)),
        (Hello { from: 4, ..HELLO_OF_3 }, Some(Refusal::Number)),
    ];
    for (hello, refusal) in refusals {
        assert_eq!(door.refusal(&hello), refusal, "{hello:?}");
    }
}

/// Connects to a door as process 3. Returns the result on the door's side, the result on this side, and this side's connection.
fn knocked(door: &Door, secret: &Secret) -> (Result<(), Failure>, Result<(), Failure>, TcpStream) {
    let (mut near, far) = loopback();
    thread::scope(|scope| {
        let opened = scope.spawn(|| door.open(far, &AtomicBool::new(false)));
        let hello = HELLO_OF_3.to_bytes();
        near.write_all(&hello).unwrap();
        let mut theirs = Nonce::default();
        let answer = verdict(&mut near, soon()).and_then(|()| {
            read(&mut near, &mut theirs, soon())?;
            near.write_all(&secret.prove("connects", &hello, &theirs))?;
            verdict(&mut near, soon())
        });
        (opened.join().unwrap(), answer, near)
    })
}

fn is_refused(result: &Result<(), Failure>, by: Refusal) -> bool {
    matches!(result, Err(Failure::Refused(refusal)) if *refusal == by)
}

#[test]
fn a_door_keeps_one_connection_of_each_process() {
    let secret = Secret::random().unwrap();
    let door = door(&secret, Purpose::Data, [9; 32]);
    assert_eq!(door.missing(), [2, 3]);
    let (opened, answer, _) = knocked(&door, &Secret::random().unwrap());
    assert!(is_refused(&opened, Refusal::Secret) && is_refused(&answer, Refusal::Secret));
    assert_eq!(door.missing(), [2, 3]);

    let (opened, answer, first) = knocked(&door, &secret);
    assert!(opened.is_ok() && answer.is_ok());
    assert_eq!(door.missing(), [2]);
    let (opened, answer, _) = knocked(&door, &secret);
    assert!(is_refused(&opened, Refusal::Number) && is_refused(&answer, Refusal::Number), "it is there already");

    drop(first);
    let (opened, answer, mut second) = knocked(&door, &secret);
    assert!(opened.is_ok() && answer.is_ok(), "it has come again");
    let (mut proof, hello) = (Proof::default(), HELLO_OF_3.to_bytes());
    read(&mut second, &mut proof, soon()).unwrap();
    assert!(secret.is_proven(&proof, "listens", &hello, &HELLO_OF_3.nonce));
    second.write_all(&[5]).unwrap();

    let mut inside = door.close();
    assert_eq!(inside.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3]);
    let mut byte = [0];
    inside[0].1.read_exact(&mut byte).unwrap();
    assert_eq!(byte, [5]);
    assert_eq!(inside[0].1.read_timeout().unwrap(), None, "it may be silent");
    let (opened, ..) = knocked(&door, &secret);
    assert!(matches!(opened, Err(Failure::Io(e)) if e.to_string() == "too late"));
}

#[test]
fn a_closed_connection_makes_room_for_its_process() {
    let (near, far) = loopback();
    assert!(is_open(&far), "nothing has been sent");
    (&near).write_all(&[1, 2]).unwrap();
    let mut byte = [0];
    (&far).read_exact(&mut byte).unwrap();
    assert!(is_open(&far), "a byte is to be read");
    (&far).read_exact(&mut byte).unwrap();
    assert_eq!(byte, [2]);
    drop(near);
    let until = soon();
    while is_open(&far) && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!is_open(&far));
}

#[test]
fn of_too_many_pending_connections_the_oldest_is_closed() {
    let door = Arc::new(door(&Secret::random().unwrap(), Purpose::Data, [9; 32]));
    let mut waiting = VecDeque::new();
    let is_closed = |near: &TcpStream| {
        near.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut near = near;
        !matches!(near.read(&mut [0]), Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    };
    let mut all: Vec<TcpStream> = Vec::new();
    for _ in 0..WAITING {
        let (near, far) = loopback();
        knock(far, &door, &mut waiting);
        all.push(near);
    }
    assert_eq!(waiting.len(), WAITING);
    assert!(!is_closed(&all[0]));

    let (near, far) = loopback();
    knock(far, &door, &mut waiting);
    all.push(near);
    assert!(is_closed(&all[0]) && !is_closed(&all[1]));
    assert_eq!(waiting.len(), WAITING);

    // A connection whose outcome is settled does not count.
    all[2].write_all(&[0; HELLO]).unwrap();
    let until = soon();
    while door.refused.load(Ordering::Relaxed) < 2 && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    while !waiting[1].1.load(Ordering::Acquire) && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    let (near, far) = loopback();
    knock(far, &door, &mut waiting);
    all.push(near);
    assert!(!is_closed(&all[1]));
    assert_eq!(waiting.len(), WAITING);
}

/// Refuses the first connection, and gives the second to a door.
fn refuses_once(listener: &TcpListener, door: &Door) -> Result<(), Failure> {
    let mut first = listener.accept().unwrap().0;
    read(&mut first, &mut [0; HELLO], soon())?;
    assert!(is_refused(&refuse(&mut first, Refusal::Digest), Refusal::Digest));
    door.open(listener.accept().unwrap().0, &AtomicBool::new(false))
}

#[test]
fn a_rejected_data_connection_is_retried() {
    let (secret, listener) = (Secret::random().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap().to_string();
    let hosts = hosts(&["-", &address, "-", "-"], 3);
    let patient = Duration::from_secs(20);
    let data = door(&secret, Purpose::Data, [9; 32]);
    thread::scope(|scope| {
        let opened = scope.spawn(|| refuses_once(&listener, &data));
        let socket = meeting(&hosts, &secret, patient).connect(1, Purpose::Data, [9; 32]).unwrap();
        assert_eq!(socket.read_timeout().unwrap(), None, "it may be silent");
        assert!(opened.join().unwrap().is_ok());
    });
    let control = door(&secret, Purpose::Control, [9; 32]);
    thread::scope(|scope| {
        scope.spawn(|| refuses_once(&listener, &control));
        let error = meeting(&hosts, &secret, patient).connect(1, Purpose::Control, [9; 32]).unwrap_err();
        assert!(matches!(error, RendezvousError::Refused { process: 1, refusal: Refusal::Digest, .. }), "{error}");
        assert!(meeting(&hosts, &secret, patient).connect(1, Purpose::Control, [9; 32]).is_ok());
    });
}

#[test]
fn an_absent_process_is_named() {
    let (secret, address) = (Secret::random().unwrap(), local_addresses(1).unwrap().remove(0));
    let (hosts, within) = (hosts(&[&address, "-", "-"], 0), Duration::from_millis(50));
    let meeting = meeting(&hosts, &secret, within);
    let error = meeting.admit(&meeting.listen().unwrap(), Purpose::Control, [9; 32]).unwrap_err();
    let is_right = |missing: &[usize]| missing == [1, 2];
    assert!(
        matches!(&error, RendezvousError::Missing { missing, refused: 0, problem: None, .. } if is_right(missing)),
        "{error}"
    );
}

#[test]
fn an_address_in_use_is_retried() {
    let (secret, held) = (Secret::random().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let hosts = hosts(&[&held.local_addr().unwrap().to_string(), "-"], 0);
    let error = meeting(&hosts, &secret, Duration::from_millis(100)).listen().unwrap_err();
    assert!(matches!(error, RendezvousError::Listen { .. }), "{error}");
    thread::scope(|scope| {
        let listens = scope.spawn(|| meeting(&hosts, &secret, Duration::from_secs(20)).listen().map(drop));
        thread::sleep(Duration::from_millis(100));
        drop(held);
        listens.join().unwrap().unwrap();
    });
}

#[test]
fn an_unreachable_process_is_named() {
    let (secret, address) = (Secret::random().unwrap(), local_addresses(1).unwrap().remove(0));
    let hosts = hosts(&[&address, "-"], 1);
    let within = Duration::from_millis(200);
    let started = Instant::now();
    let error = meeting(&hosts, &secret, within).connect(0, Purpose::Control, [9; 32]).unwrap_err();
    assert!(started.elapsed() >= within, "it tries until the end");
    let start = format!("process 0 at {address} was not reached within 0.2 s (");
    assert!(error.to_string().starts_with(&start), "{error}");
    assert!(dial("localhost", within).is_err(), "no port");
}

#[test]
fn an_answer_byte_is_parsed_as_a_verdict() {
    let answer = |byte: u8| {
        let (mut near, mut far) = loopback();
        far.write_all(&[byte]).unwrap();
        verdict(&mut near, soon())
    };
    assert!(answer(0).is_ok());
    for refusal in Refusal::ALL {
        assert!(is_refused(&answer(refusal as u8), refusal));
    }
    assert!(matches!(answer(5), Err(Failure::Io(e)) if e.to_string() == "another program listens there"));
}

#[test]
fn bytes_are_read_until_the_deadline() {
    let (mut near, mut far) = loopback();
    let slow = thread::spawn(move || {
        for byte in 0..5 {
            thread::sleep(2 * SOON);
            far.write_all(&[byte]).unwrap();
        }
        far
    });
    let mut bytes = [9; 5];
    read(&mut near, &mut bytes, soon()).unwrap();
    assert_eq!(bytes, [0, 1, 2, 3, 4]);
    let far = slow.join().unwrap();
    let error = read(&mut near, &mut bytes, Instant::now() + 2 * SOON).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::TimedOut, "it does not answer".into()));
    drop(far);
    assert_eq!(read(&mut near, &mut bytes, soon()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_connection_that_fails_is_not_read_until_the_deadline() {
    let (mut near, far) = loopback();
    near.write_all(&[1]).unwrap();
    let until = soon();
    while far.peek(&mut [0]).unwrap() == 0 && Instant::now() < until {}
    drop(far); // with an unread byte: the connection is reset
    assert_eq!(read(&mut near, &mut [0], soon()).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn time_limits_of_a_handshake_are_removed_afterwards() {
    let (near, _far) = loopback();
    patient(&near).unwrap();
    assert_eq!((near.read_timeout().unwrap(), near.write_timeout().unwrap()), (Some(PATIENCE), Some(PATIENCE)));
    assert!(near.nodelay().unwrap());
    let near = ready(near).unwrap();
    assert_eq!((near.read_timeout().unwrap(), near.write_timeout().unwrap()), (None, None));
}

#[test]
fn processes_connect_to_each_other() {
    let (secret, addresses) = (Secret::random().unwrap(), local_addresses(3).unwrap());
    assert_eq!(addresses.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
    let met: Vec<Met> = thread::scope(|scope| {
        let meets = |me| {
            let (hosts, secret) = (Hosts { addresses: addresses.clone(), me }, &secret);
            scope.spawn(move || meet(&hosts, secret, Duration::from_secs(20)).unwrap())
        };
        let all: Vec<_> = (0..3).map(meets).collect();
        all.into_iter().map(|process| process.join().unwrap()).collect()
    });
    let session = met[0].session;
    assert_ne!(session, [0; 32]);
    for (me, met) in met.iter().enumerate() {
        assert_eq!(met.session, session);
        let control: Vec<usize> = met.control.iter().map(|(number, _)| *number).collect();
        assert_eq!(control, if me == 0 { vec![1, 2] } else { vec![0] });
        assert_eq!(met.data.iter().map(Option::is_some).collect::<Vec<_>>(), (0..3).map(|p| p != me).collect::<Vec<_>>());
    }
    let alone = meet(&hosts(&["-"], 0), &secret, Duration::ZERO).unwrap();
    assert!(alone.control.is_empty() && alone.data.len() == 1);
}

#[test]
fn errors_distinguish_an_ended_from_a_waiting_process_0() {
    let secret = Secret::random().unwrap();
    for (leaves, words) in
        [(true, "ended before all processes had connected"), (false, "(it is still waiting for others); start it")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let hosts = hosts(&[&listener.local_addr().unwrap().to_string(), "-"], 1);
        let own = digest(std::iter::once(b"hosts".as_slice()).chain(hosts.addresses.iter().map(String::as_bytes)));
        let zero = Door { me: 0, processes: 2, ..door(&secret, Purpose::Control, own) };
        thread::scope(|scope| {
            let opens = scope.spawn(|| {
                zero.open(listener.accept().unwrap().0, &AtomicBool::new(false)).map_err(|_| "not opened").unwrap();
                if leaves {
                    drop(zero.close());
                }
            });
            let error = meet(&hosts, &secret, Duration::from_millis(1000)).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            opens.join().unwrap();
        });
    }
}
