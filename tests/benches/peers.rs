//! The same work by Lockkeeper and by other lock libraries, in turns on the same servers.
//!
//! The others are the programs in `tests/peers`, each in a process of its own. Lockkeeper's locks run in this process.

mod own;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use lockkeeper_testkit::peer::Program;
use lockkeeper_testkit::server::Server;
use serde_json::{Value, json};

use crate::meters::{commands, count, processors, servers_processor_time};
use crate::report::{Report, Row, Target};
use crate::rounds::{Spread, in_turns};
use crate::{Effort, PATIENCE};
pub(crate) use own::Own;

const PART: &str = "peers";

/// The number of servers for a Redlock. Work on one server uses the first.
const SERVERS: usize = 5;

/// Numbers of tasks with a name each.
const TASKS: [usize; 4] = [1, 8, 64, 256];

/// The work, and how many tasks and clients do it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    work: Work,
    kind: &'static str,
    tasks: usize,
    clients: usize,
    /// Whether to keep the processors from sleeping meanwhile, as on a machine with other work.
    awake: bool,
}

/// The kinds of work, as in `tests/peers/README.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Pairs,
    Contended,
}

impl Scene {
    pub(crate) const fn pairs(kind: &'static str, tasks: usize) -> Self {
        Self {
            work: Work::Pairs,
            kind,
            tasks,
            clients: 1,
            awake: tasks == 1,
        }
    }

    const fn contended(kind: &'static str, tasks: usize, clients: usize) -> Self {
        Self {
            work: Work::Contended,
            kind,
            tasks,
            clients,
            awake: false,
        }
    }

    /// The order for a program.
    fn order(&self, millis: usize) -> Value {
        let Self {
            work,
            kind,
            tasks,
            clients,
            ..
        } = *self;
        let work = match work {
            Work::Pairs => "pairs",
            Work::Contended => "contended",
        };
        let name = format!("{work}-{kind}-{tasks}-{clients}");
        json!({ "work": work, "kind": kind, "tasks": tasks, "clients": clients, "millis": millis, "name": name })
    }

    /// The title in the report.
    fn title(&self) -> String {
        let Self { tasks, clients, .. } = self;
        let tasks = match tasks {
            1 => "1 task".to_owned(),
            _ => format!("{tasks} tasks"),
        };
        let state = match (self.tasks, self.awake) {
            (1, true) => ", awake",
            (1, false) => ", asleep between",
            _ => "",
        };
        match self.work {
            Work::Pairs => format!("{} pairs, {tasks}{state}", self.kind),
            Work::Contended => format!("one {}, {tasks} in {clients}", self.kind),
        }
    }
}

/// All scenes.
fn scenes() -> Vec<Scene> {
    let mut scenes = vec![Scene {
        awake: false,
        ..Scene::pairs("mutex", 1)
    }];
    scenes.extend(TASKS.map(|tasks| Scene::pairs("mutex", tasks)));
    for kind in ["reentrant", "fair", "read", "write", "eight", "redlock"] {
        scenes.extend(TASKS.map(|tasks| Scene::pairs(kind, tasks)));
    }
    scenes.extend(
        [(8, 1), (64, 1), (8, 8), (64, 8)]
            .map(|(tasks, clients)| Scene::contended("mutex", tasks, clients)),
    );
    scenes.extend([8, 64].map(|tasks| Scene::contended("fair", tasks, 8)));
    scenes.extend([8, 64].map(|tasks| Scene::contended("redlock", tasks, 1)));
    scenes
}

/// What one peer did in one round.
#[derive(Debug)]
struct Sample {
    rate: f64,
    /// The waits; `tests/peers/README.md` says what they measure. µs.
    half: f64,
    late: f64,
    worst: f64,
    /// The grants of the client with the fewest, relative to its fair share, %.
    share: f64,
    /// Per grant, µs.
    processor: f64,
    server: f64,
    /// Per grant, including commands inside scripts.
    commands: f64,
}

/// A participant.
enum Peer {
    Own(Own),
    Program(Box<Program>),
}

impl Peer {
    fn name(&self) -> &str {
        match self {
            Self::Own(_) => "Lockkeeper",
            Self::Program(program) => &program.name,
        }
    }

    fn has(&self, kind: &str) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Program(program) => program.kinds.iter().any(|it| it == kind),
        }
    }

    async fn work(&mut self, scene: Scene, millis: usize) -> Result<Answer> {
        match self {
            Self::Own(own) => own.work(scene, millis).await,
            Self::Program(program) => {
                Answer::read(&program.work(&scene.order(millis), PATIENCE).await?)
            }
        }
    }
}

/// A peer's report about a round.
pub(crate) struct Answer {
    /// Per client, in µs.
    pub(crate) waits: Vec<Vec<f64>>,
    pub(crate) seconds: f64,
    /// In µs.
    processor: f64,
}

impl Answer {
    fn read(answer: &Value) -> Result<Self> {
        let number = |field: &str| answer[field].as_f64().context("no number");
        let mut waits = Vec::new();
        for its in answer["waits"].as_array().context("no waits")? {
            let its = its.as_array().context("no waits of a client")?;
            waits.push(its.iter().filter_map(Value::as_f64).collect());
        }
        Ok(Self {
            waits,
            seconds: number("seconds")?,
            processor: number("processor")?,
        })
    }
}

/// Measures Lockkeeper and the programs that these commands start.
pub(crate) async fn measure(effort: Effort, starts: &[String]) -> Result<Report> {
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        servers.push(Server::start().await?);
    }
    let mut facts = BTreeMap::new();
    let mut peers = vec![Peer::Own(Own::new(
        servers.iter().map(Server::url).collect(),
    ))];
    for start in starts {
        let words: Vec<String> = serde_json::from_str(start).context("no array of words")?;
        let program = Program::start(&words, &servers).await?;
        let text = format!("{}: {}", program.version, program.settings);
        facts.insert(program.name.clone(), text);
        peers.push(Peer::Program(Box::new(program)));
    }
    // Warm up, so that just-in-time compilation does not count.
    for peer in &mut peers {
        for work in [Work::Pairs, Work::Contended] {
            let scene = Scene {
                work,
                ..Scene::pairs("mutex", 64)
            };
            peer.work(scene, effort.peer_millis * 4).await?;
        }
    }
    let cells: Vec<_> = peers.into_iter().map(tokio::sync::Mutex::new).collect();
    let mut rows = Vec::new();
    for scene in scenes() {
        rows.extend(compare(scene, effort, &servers, &cells).await?);
    }
    for cell in cells {
        match cell.into_inner() {
            Peer::Own(own) => own.stop().await,
            Peer::Program(program) => program.stop().await?,
        }
    }
    Ok(Report { facts, rows })
}

async fn compare(
    scene: Scene,
    effort: Effort,
    servers: &[Server],
    peers: &[tokio::sync::Mutex<Peer>],
) -> Result<Vec<Row>> {
    let mut which = Vec::new();
    let mut names = Vec::new();
    for (index, peer) in peers.iter().enumerate() {
        let peer = peer.lock().await;
        if peer.has(scene.kind) {
            which.push(index);
            names.push(peer.name().to_owned());
        }
    }
    let awake = scene.awake.then(Awake::begin).transpose()?;
    let millis = match scene.work {
        Work::Pairs => effort.peer_millis,
        Work::Contended => effort.peer_millis * 2,
    };
    let round = async |index: usize| {
        let before = (
            servers_processor_time(servers).await?,
            commands(servers).await?,
        );
        let answer = peers[index].lock().await.work(scene, millis).await?;
        let server = servers_processor_time(servers).await? - before.0;
        // Two of each server's commands are this query.
        let asked = count(servers.len() * 2);
        let commands = commands(servers).await? - before.1 - asked;
        sample(answer, server * 1e6, commands)
    };
    let samples = in_turns(&which, effort.rounds.div_ceil(4), round).await?;
    drop(awake);

    let mut rows = Vec::new();
    let title = scene.title();
    let series = |samples: &[Sample], of: fn(&Sample) -> f64| -> Vec<f64> {
        samples.iter().map(of).collect()
    };
    for (name, samples) in names.iter().zip(&samples) {
        let row = |what: &str, unit, of: fn(&Sample) -> f64| {
            let spread = Spread::of(samples.iter().map(of))?;
            anyhow::Ok(Row::new(
                PART,
                format!("{title}: {name}{what}"),
                unit,
                spread,
            ))
        };
        let rate = row("", "/s", |it| it.rate)?;
        rows.push(match scene.work {
            Work::Pairs if scene.kind == "mutex" && (scene.awake || scene.tasks > 1) => {
                rate.plotted("pairs", name, count(scene.tasks))
            }
            _ => rate,
        });
        rows.extend([
            row(", median", "µs", |it| it.half)?,
            row(", 99 %", "µs", |it| it.late)?,
            row(", longest", "µs", |it| it.worst)?,
            row(", client CPU", "µs", |it| it.processor)?,
            row(", server CPU", "µs", |it| it.server)?,
            row(", commands", "", |it| it.commands)?,
        ]);
        if scene.clients > 1 {
            rows.push(row(", least share", "%", |it| it.share)?);
        }
    }
    let Some((own, others)) = samples.split_first() else {
        return Ok(rows);
    };
    for (name, samples) in names.iter().skip(1).zip(others) {
        // With one task, each round trip waits for the last, so time is what counts.
        let (unit, of): (_, fn(&Sample) -> f64) = match (scene.work, scene.tasks) {
            (Work::Pairs, 1) => ("time", |it| it.half),
            _ => ("rate", |it| it.rate),
        };
        let ratio = Spread::of_ratios(&series(own, of), &series(samples, of))?;
        let what = format!("{title}: {unit}, Lockkeeper / {name}");
        let row = Row::new(PART, what, "×", ratio);
        rows.push(match target(scene, name) {
            Some(target) => row.target(target),
            None => row,
        });
    }
    Ok(rows)
}

/// The target for Lockkeeper relative to this peer.
fn target(scene: Scene, peer: &str) -> Option<Target> {
    match (scene.work, scene.tasks) {
        (Work::Pairs, 1) if scene.kind == "mutex" && peer == "rslock" => Some(Target::AtMost(1.1)),
        (Work::Pairs, 1) => Some(Target::AtMost(1.0)),
        (Work::Pairs, _) => Some(Target::AtLeast(1.0)),
        (Work::Contended, _) => Some(Target::AtLeast(3.0)),
    }
}

fn sample(answer: Answer, server: f64, commands: f64) -> Result<Sample> {
    let grants: Vec<_> = answer.waits.iter().map(Vec::len).collect();
    let least = *grants.iter().min().context("no client")?;
    let mut waits: Vec<f64> = answer.waits.into_iter().flatten().collect();
    waits.sort_by(f64::total_cmp);
    let at = |part: usize| waits.get(waits.len() * part / 100).copied();
    let all = count(waits.len());
    ensure!(all > 0.0, "nothing was granted");
    Ok(Sample {
        rate: all / answer.seconds,
        half: at(50).context("no wait")?,
        late: at(99).context("no wait")?,
        worst: waits.last().copied().context("no wait")?,
        share: count(least) * count(grants.len()) / all * 100.0,
        processor: answer.processor / all,
        server: server / all,
        commands: commands / all,
    })
}

/// Low-priority processes that keep the processors from sleeping: a round trip takes four times as long on sleeping ones.
pub(crate) struct Awake(Vec<Child>);

impl Awake {
    pub(crate) fn begin() -> Result<Self> {
        let mut spinners = Self(Vec::new());
        // All of them: with `--cores` the servers run where this process may not.
        for processor in 0..processors() {
            let mut command = Command::new("taskset");
            command.args(["-c", &processor.to_string(), "chrt", "--idle", "0"]);
            command.args(["sh", "-c", "while :; do :; done"]);
            let child = command.stdin(Stdio::null()).spawn();
            spinners
                .0
                .push(child.context("failed to start taskset, of util-linux")?);
        }
        Ok(spinners)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It is our child and runs until it is killed.
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                eprintln!("failed to stop a process that keeps the processors awake: {error}");
            }
        }
    }
}
