// The command run, which holds a lock while a command runs.

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

const (
	defaultTTL  = 30 * time.Second
	normalGrace = 5 * time.Second
)

var runCommand = command{
	name: "run", args: "-key KEY [--] COMMAND [ARGUMENT ...]",
	minArgs: 1, maxArgs: anyArgs,
	summary: "hold a lock while a command runs",
	about: `
Waits for the lock, runs the command, and releases the lock after all processes of the command have
ended. The exit status is that of the command. If a signal has killed the command, leasewheel dies of
the same signal: a script, make or xargs around it ends at Ctrl-C as it does without leasewheel.

The processes of the command are those of its process group and, on Linux, all its other descendants,
such as those of timeout(1). A process that has started a session (setsid) is neither stopped nor
waited for.

The lock is renewed while the command runs. If it can no longer be relied on, because the server
cannot be reached for example, the command gets SIGTERM (-signal) and is killed after the grace
(-grace). Both happen before another process can get the lock: a lease of 30s is given up about 6s
before it ends. Only if the server says that the lock is gone, after leasewheel force-release for
example, another holder may be active at once; -grace 0 then kills the command at once.

If the lock is taken, messages name its holder: after a second of waiting, and at the end of the wait.
-quiet suppresses them.

SIGINT, SIGTERM, SIGHUP and SIGQUIT are forwarded to all processes of the command, SIGTSTP, SIGCONT
and SIGWINCH to its process group, SIGUSR1 and SIGUSR2 to the command alone. While leasewheel waits
for the lock, a signal ends it. The command gets the terminal, so that it can read from it. Ctrl-Z
stops the command and leasewheel; if the lease has ended when they are continued, the command is
killed.

A second process, the guard, stops the command if leasewheel is killed, or if it is stopped
(SIGSTOP) until the lease ends. It reaches the process group of the command only. If the guard is killed
or stopped, another takes its place. If both are stopped, nobody stops the command; if both are killed, it
gets the signal on Linux only. A command that has become another user, through sudo for example, cannot be
signalled.

The command finds the key in LEASEWHEEL_KEY and the fencing token in LEASEWHEEL_TOKEN. A resource
that refuses lower tokens than the highest it has seen is safe from former holders.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o runOptions
		o.define(f)
		return o.run
	},
}

// taskOptions are the flags that run and elect have in common.
type taskOptions struct {
	connection
	key     string
	ttl     time.Duration
	grace   time.Duration // below 0: as the TTL allows
	maxHold time.Duration
	signal  string
	meta    string
}

func (o *taskOptions) define(f *flag.FlagSet) {
	o.connection.define(f)
	f.StringVar(&o.key, "key", "", "`key` of the lock; needed")
	alias(f, "k", "key")
	defineDuration(f, &o.ttl, "ttl", defaultTTL, "`duration` of the lease, which is renewed: how long others wait after a crash")
	defineDuration(f, &o.grace, "grace", -1, "`duration` from the signal to the KILL when the lock is lost, 0 to kill at once;\n"+
		"the default is 5s, or less if the TTL is below "+shortestTTL(normalGrace).String())
	defineDuration(f, &o.maxHold, "max-hold", 0, "`duration` after which the lock counts as lost; 0 is no limit")
	f.StringVar(&o.signal, "signal", "TERM", "`signal` for the command when the lock is lost")
}

// runOptions are the flags of run.
type runOptions struct {
	taskOptions
	waitOptions
	minHold time.Duration
	yield   string
	read    bool
	write   bool
	permits int
}

func (o *runOptions) define(f *flag.FlagSet) {
	o.taskOptions.define(f)
	f.StringVar(&o.meta, "meta", "", "`text` that inspect shows of the holder; the default is host, process and command")
	o.defineWait(f)
	defineDuration(f, &o.minHold, "min-hold", 0, "`duration` for which the lock stays taken even if the command ends before; for a lock with one holder")
	f.StringVar(&o.yield, "yield", "", "`signal` for the command, once, when others wait for the lock, so that it ends at a good point;\n"+
		"it goes to the processes that would get it from leasewheel")
	f.BoolVar(&o.read, "read", false, "share the lock with other readers; writers need -write")
	f.BoolVar(&o.write, "write", false, "exclude readers and writers")
	defineNumber(f, &o.permits, "permits", 1, lock.MaxPermits,
		"`number` of holders at a time: a semaphore; all holders give the same number")
}

// check returns the error of a wrong flag.
func (o *taskOptions) check() error {
	if o.key == "" || o.key == "--" { // -k $KEY -- COMMAND with an empty KEY
		return usageError{"-key is needed"}
	}
	if _, ok := signalNamed(o.signal); !ok {
		return usageError{fmt.Sprintf("-signal: this system has no signal %q to send", o.signal)}
	}
	return checkTTL(o.ttl)
}

func (o *runOptions) check() error {
	kinds := 0
	for _, set := range []bool{o.read, o.write, o.permits > 0} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return usageError{"-read, -write and -permits exclude each other"}
	case kinds > 0 && o.minHold != 0:
		return usageError{"-min-hold is for a lock with one holder, not for -read, -write and -permits"}
	case o.yield != "" && o.permits > 0:
		return usageError{"-yield is not for -permits"}
	}
	if _, ok := signalNamed(o.yield); !ok && o.yield != "" {
		return usageError{fmt.Sprintf("-yield: this system has no signal %q to send", o.yield)}
	}
	return o.taskOptions.check()
}

// task returns the task for a command line.
func (o *taskOptions) task(args []string, std streams) (*task, error) {
	t, err := newTask(args, std)
	if err != nil {
		return nil, err
	}
	t.signal, _ = signalNamed(o.signal)
	t.reserve = reserveFor(o.ttl)
	if t.grace = o.grace; t.grace < 0 {
		t.grace = min(normalGrace, longestGrace(o.ttl))
	}
	return t, nil
}

// options returns the options of a client whose leases leave the task its grace.
func (o *taskOptions) options(t *task) (lock.Options, error) {
	timing, err := renewalFor(o.ttl, t.grace)
	if err != nil {
		return lock.Options{}, err
	}
	meta := cmp.Or(o.meta, defaultMeta(t))
	return lock.Options{
		Terms:     lock.Terms{TTL: o.ttl, MaxHold: o.maxHold, Metadata: meta[:min(len(meta), lock.MaxMetadataLen)]},
		Renewal:   timing,
		WarnAfter: -1,
	}, nil
}

// defaultMeta names the host, the process and the program.
func defaultMeta(t *task) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s pid %d %s", host, os.Getpid(), filepath.Base(t.path))
}

// run runs the command.
func (o *runOptions) run(args []string, std streams) int {
	if err := o.check(); err != nil {
		return fail(std, err)
	}
	t, err := o.task(args, std)
	if err != nil {
		return fail(std, err)
	}
	t.yield, _ = signalNamed(o.yield)
	caught := catchSignals()
	defer caught.stop()
	client, held, err := o.acquire(t, caught)
	if err != nil {
		return o.failed(std, err)
	}
	result := t.run(held, caught)
	return release(client, held, result, std)
}

// acquire returns the lock with its client.
func (o *runOptions) acquire(t *task, caught *signals) (*lockClient, *lock.Held, error) {
	options, err := o.options(t)
	if err != nil {
		return nil, nil, err
	}
	options.MinHold, options.Yields = o.minHold, o.yield != ""
	return o.lock(o.key, options, t.std, caught, &o.waitOptions, o.of)
}

// lock connects and waits for the lock that of returns. A signal ends both, and so does the time of the flags.
func (o *connection) lock(
	key string, options lock.Options, std streams, caught *signals, wait *waitOptions, of func(*lock.Client) lock.Locker,
) (*lockClient, *lock.Held, error) {
	var client *lockClient
	var held *lock.Held
	err := caught.during(func(ctx context.Context) (err error) {
		limited, cancel := wait.within(ctx)
		defer cancel()
		if client, err = o.client(limited, std, options); err != nil {
			return err
		}
		if !wait.quiet {
			defer client.announce(ctx, key, std)()
		}
		held, err = wait.acquire(ctx, limited, of(client.Client))
		return err
	})
	if client != nil && errors.Is(err, lock.ErrNotAcquired) && !wait.quiet {
		err = client.withHolder(key, err)
	}
	if err == nil {
		return client, held, nil
	}
	if held != nil {
		_ = held.Unlock(context.Background())
	}
	if client != nil {
		_ = client.shutWithin(leaveTimeout)
	}
	return nil, nil, err
}

// of returns the lock that the flags describe.
func (o *runOptions) of(c *lock.Client) lock.Locker {
	switch {
	case o.read:
		return c.RWMutex(o.key).RLocker()
	case o.write:
		return c.RWMutex(o.key)
	case o.permits > 0:
		return c.Semaphore(o.key, o.permits)
	}
	return c.Mutex(o.key)
}

// release unlocks and closes the client. It returns the status of the command, or exitLost.
func release(client *lockClient, held *lock.Held, result outcome, std streams) int {
	err := held.Unlock(context.Background())
	if closeErr := client.shut(); err == nil {
		err = closeErr
	}
	if err != nil && !errors.Is(err, lock.ErrLost) {
		fmt.Fprintln(std.err, "leasewheel: the command has ended, but the release of its lock is not confirmed:", errorText(err))
	}
	passToJob(result.typed)
	return result.status
}
