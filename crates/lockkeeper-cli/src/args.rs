//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::serve::ServeOptions;
use crate::server::Server;
use crate::slots::SlotOptions;

/// A number of permits. What is no number at all is not quoted, as for [`time`].
fn permits(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("it must be one or more".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("a whole number from 1 to {} is needed", u32::MAX)),
    }
}

/// A time as people write it. What is no time at all is not quoted: it may be a password.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| match text.contains([':', '@']) {
        true => "a time reads like 30s or 10m".to_owned(),
        false => error.to_string(),
    })
}

const EXAMPLES: &str = "\
Examples:
  lockkeeper run --no-wait --lock nightly -- /usr/local/bin/report
  lockkeeper run --fair --wait 10m --lock deploy:web -- ./deploy.sh
  LOCKKEEPER_URL=redis://:secret@cache:6379 lockkeeper ls 'deploy:*'

Exit codes:
  64 usage, 69 server out of reach, 71 the system refused, 75 held by somebody else, 76 lock lost;
  of run otherwise those of the program, 126 if it cannot be executed, 127 if there is none, 128 + n after signal n";

const RUN_EXAMPLES: &str = "\
Examples:
  # Cron on ten machines, one runs; the others exit with 0 at once and say nothing
  lockkeeper run --no-wait -E 0 --lock nightly --min-hold 1m -- /usr/local/bin/report

  # Wait up to ten minutes for one's turn; 20 s to clean up if the lock is about to be lost
  lockkeeper run --fair --wait 10m --ttl 60s --grace 20s --lock deploy:web -- ./deploy.sh

  # Reports run side by side, and never while the table is loaded
  lockkeeper run --shared --lock prices -- ./report.sh
  lockkeeper run --exclusive --lock prices -- ./load.sh

  # Two accounts at once, whichever order others name them in
  lockkeeper run --lock account:7 --lock account:9 -- ./transfer.sh 7 9

  # A fleet of batch jobs, of which at most eight work at a time; a heavy one counts for two
  lockkeeper run --semaphore batch --limit 8 -- ./job.sh
  lockkeeper run --semaphore batch --limit 8 --permits 2 -- ./heavy-job.sh

  # A service with a standby: one runs, the other takes over when it ends or dies
  lockkeeper run --elect api --value 10.0.0.5:8080 -- ./server --port 8080
  # A night's report, once on whichever machine comes first; if that dies another one takes over. Up to three nights are made up for
  lockkeeper run --once-per 1d --catch-up 3 --lock report -- sh -c 'report --day \"${LOCKKEEPER_SLOT%T*}\"'
  lockkeeper history report

  # The fencing token, for a resource that refuses older ones
  lockkeeper run --lock ledger -- sh -c 'ledger-append --token \"$LOCKKEEPER_FENCE\"'";

const LIST_EXAMPLES: &str = "\
Examples:
  lockkeeper ls
  lockkeeper ls 'deploy:*'
  lockkeeper ls --json | jq -r 'select(.waiters > 0).name'";

const TOP_KEYS: &str = "\
Keys:
  arrows, j, k, PageUp, PageDown, Home, End   move
  Enter   show the holders and the queue of a name; Esc goes back
  /       filter by a part of a name or of a holder, as you type; Esc clears it
  s       sort by waiters, by name, by age, by time left
  r       ask the holder of a name to let it go, after a question
  ?       help
  q       leave, as Esc and Ctrl-C do

Examples:
  lockkeeper top
  lockkeeper top 'deploy:*' --interval 5s";

const SERVE_EXAMPLES: &str = "\
Examples:
  lockkeeper serve
  lockkeeper serve --listen 127.0.0.1:0 'deploy:*'

  # On another machine, through a tunnel: then open http://localhost:9090
  ssh -L 9090:127.0.0.1:9090 db1

  # With a token, the page can revoke, and so can a script
  LOCKKEEPER_SERVE_TOKEN=$(openssl rand -hex 16) lockkeeper serve --allow-revoke
  curl -X POST -H \"Authorization: Bearer $LOCKKEEPER_SERVE_TOKEN\" localhost:9090/api/locks/nightly/revoke";

const LIMIT_EXAMPLES: &str = "\
Examples:
  lockkeeper limit batch
  lockkeeper limit batch 12";

const LEADER_EXAMPLES: &str = "\
Examples:
  lockkeeper leader api
  lockkeeper leader api --json | jq -r .value
  lockkeeper leader api --watch --json | while read -r line; do ./reload.sh \"$line\"; done";

const HISTORY_EXAMPLES: &str = "\
Examples:
  lockkeeper history report
  lockkeeper history report --json | jq 'select(.code != 0)'";

const RELEASE_EXAMPLES: &str = "\
Examples:
  lockkeeper inspect nightly
  lockkeeper release nightly --fence 1763703089000000 --force";

/// Run a program under a distributed lock, and see who holds what
#[derive(Debug, Parser)]
#[command(name = "lockkeeper", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// JSON instead of text, one object a line; of run, its events on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) color: colorchoice_clap::Color,

    #[command(flatten)]
    pub(crate) server: Server,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program under a lock, and stop it before the lock can be somebody else's
    ///
    /// The program gets the terminal, stdin and stdout of this command, no shell between, a process group of its own, and
    /// LOCKKEEPER_NAME, LOCKKEEPER_KIND, LOCKKEEPER_OWNER, LOCKKEEPER_FENCE and LOCKKEEPER_TTL_MS in its environment; with
    /// --shared or --exclusive LOCKKEEPER_MODE too, with --semaphore LOCKKEEPER_PERMITS, with --once-per or --slot LOCKKEEPER_SLOT. Of several locks the names, the kinds
    /// and the fencing tokens are one to a line, in the order of the options, that of a semaphore last.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run>),

    /// List the locks that are held
    #[command(after_help = LIST_EXAMPLES)]
    Ls {
        /// Which names: * is anything, ? one character, [a-c] one of these
        #[arg(default_value = "*")]
        pattern: String,
    },

    /// Show who holds a lock, since when and for how long, and who waits
    Inspect {
        /// The lock
        name: String,
    },

    /// Tell what changes about a lock, until interrupted
    Watch {
        /// The lock
        name: String,

        /// How often to look; what begins and ends between two looks is not seen
        #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = time)]
        interval: Duration,
    },

    /// Show who holds what and who waits on a screen that follows it, until q is typed
    ///
    /// Names with most waiters come first. With many names they are asked about in turn, at most 1000 questions a second, and
    /// those on the screen each time. The screen says how old the oldest answer is.
    #[command(after_help = TOP_KEYS)]
    Top {
        /// Which names: * is anything, ? one character, [a-c] one of these
        #[arg(default_value = "*")]
        pattern: String,

        /// How often to look
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
        interval: Duration,
    },

    /// Show what is held as a web page that follows it, and as metrics for Prometheus, until interrupted
    ///
    /// / is the page, /metrics are the metrics, /api/locks and /api/locks/NAME are JSON, /events is what the page follows. While nobody looks
    /// on or scrapes, the server is asked nothing. It listens on this machine alone unless told otherwise, changes nothing
    /// without --allow-revoke, and asks nobody who reads for a password: a proxy in front may.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeOptions),

    /// Show who leads an election, and what it is known by
    #[command(after_help = LEADER_EXAMPLES)]
    Leader {
        /// The election
        name: String,

        /// Go on and tell whenever that changes, until interrupted
        #[arg(long)]
        watch: bool,
    },

    /// Show how many permits a semaphore has, or change that while it is in use
    ///
    /// The limit is stored while somebody holds permits or waits for some, and is that of the run that came first. A new limit
    /// stands for all of them. If it is raised, those in front of the queue start at once; if it is lowered, nobody loses
    /// permits, and the next starts when enough have ended.
    #[command(after_help = LIMIT_EXAMPLES)]
    Limit {
        /// The semaphore
        name: String,

        /// How many permits there are from now on
        #[arg(value_name = "LIMIT", value_parser = permits)]
        limit: Option<u32>,
    },

    /// Show what has come of the slots of a job that runs once per slot, the last that ended first
    #[command(after_help = HISTORY_EXAMPLES)]
    History {
        /// The job: the --lock of its runs
        name: String,
    },

    /// Ask whoever holds a lock to let it go
    ///
    /// The holder is told, stops its work and leaves; the lock is free then, at the latest when its lease ends.
    Revoke {
        /// The lock
        name: String,
    },

    /// Take a lock from a holder that is known to be dead. UNSAFE: one that lives works on until it hears of it
    ///
    /// The lock is taken only from the holder that is named by its fencing token or its claim, as inspect shows them.
    #[command(after_help = RELEASE_EXAMPLES)]
    Release(Release),

    /// Check the server: whether it is reached, lets locks work, and keeps what it is told
    Doctor,

    /// See locks at work, in this process, or on the server that --url names
    Demo,

    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },

    /// Print the man page, or write those of all subcommands into a folder
    #[command(hide = true)]
    Manual {
        /// The folder
        folder: Option<PathBuf>,
    },
}

/// What `release` is to do.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("holder").required(true).args(["fence", "claim"])))]
pub(crate) struct Release {
    /// The lock
    pub(crate) name: String,

    /// The fencing token of the holder
    #[arg(long, value_name = "TOKEN")]
    pub(crate) fence: Option<u64>,

    /// The claim of the holder, when it has no token: another library holds, or several do, each by its own
    #[arg(long, value_name = "CLAIM")]
    pub(crate) claim: Option<String>,

    /// Yes, the holder is dead
    #[arg(long)]
    pub(crate) force: bool,
}

/// What `run` is to do.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The lock; given several times, all of these locks or none, in whatever order others name them
    #[arg(
        long = "lock",
        value_name = "NAME",
        required_unless_present_any = ["semaphore", "elect"]
    )]
    pub(crate) locks: Vec<String>,

    /// First come, first served
    #[arg(long, requires = "locks", conflicts_with_all = ["reenter", "shared", "exclusive"])]
    pub(crate) fair: bool,

    /// A run inside this one gets in again by the same --lock --reenter
    #[arg(long, requires = "locks", conflicts_with_all = ["shared", "exclusive"])]
    pub(crate) reenter: bool,

    /// To read: together with others that share it, and never while an --exclusive run has it or waits in front
    #[arg(short, long, requires = "locks", conflicts_with = "exclusive")]
    pub(crate) shared: bool,

    /// To write: alone, where others take the lock --shared. Without this option a run does not keep those out
    #[arg(short = 'x', long, requires = "locks")]
    pub(crate) exclusive: bool,

    /// A semaphore: as many runs at a time as its --limit says, first come, first served. Together with --lock, all or none
    #[arg(long, value_name = "NAME", requires = "limit")]
    pub(crate) semaphore: Option<String>,

    /// How many permits the --semaphore has. While others hold or wait, theirs stands until `lockkeeper limit` changes it
    #[arg(long, value_name = "N", requires = "semaphore", value_parser = permits)]
    pub(crate) limit: Option<u32>,

    /// How many of these this run takes [default: 1]
    #[arg(long, value_name = "N", requires = "semaphore", value_parser = permits)]
    pub(crate) permits: Option<u32>,

    /// An election: one run of all that name it is the leader, the others stand by in the order of asking
    // With each that needs another one of these too: the parser asks for none that this excludes.
    #[arg(long, value_name = "NAME")]
    #[arg(conflicts_with_all = ["locks", "semaphore", "limit", "permits", "fair", "reenter", "shared", "exclusive", "once_per", "slot"])]
    pub(crate) elect: Option<String>,

    /// What the leader is known by, its address for example: `lockkeeper leader` shows it
    #[arg(long, value_name = "TEXT", requires = "elect", conflicts_with_all = ["locks", "semaphore"])]
    pub(crate) value: Option<String>,

    #[command(flatten)]
    pub(crate) slots: SlotOptions,

    /// Give up at once if somebody else holds the lock
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// Give up after this long, and not before, also if the server is out of reach [default: wait for as long as it takes,
    /// while the server answers]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,

    /// Length of the lease: how long others are kept out if this machine dies
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(crate) ttl: Duration,

    /// The lock is lost, and the program stopped, after this long
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,

    /// Others are kept out for at least this long, also if the program is done sooner
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) min_hold: Option<Duration>,

    /// How long before the end of its lease the program is asked to stop, at most a third of the ttl
    /// [default: 5s, or a sixth of the ttl if that is shorter]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) grace: Option<Duration>,

    /// What becomes of the program when the lock is being lost
    #[arg(long, value_name = "WHAT", default_value = "terminate")]
    pub(crate) on_lost: OnLost,

    /// Exit code if somebody else holds the lock, or a slot that has failed is not to be tried yet; with 0 that is said on a
    /// terminal only
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::CONFLICT)]
    pub(crate) conflict_exit_code: u8,

    /// Keep the lock until the last process of the program's group has ended; without it those that the program leaves
    /// behind are stopped when it ends
    #[arg(long)]
    pub(crate) keep: bool,

    /// Tell what happens, one JSON object a line, to this file, /dev/fd/3 for example
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", action = ArgAction::Append)]
    pub(crate) program: Vec<OsString>,
}

/// What becomes of the program when the lock is being lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM, and SIGKILL before the lease can end
    Terminate,
    /// SIGKILL, no sooner than it must be, but at once if the lock is gone or revoked
    Kill,
    /// Nothing: it runs on without the lock
    Ignore,
}
