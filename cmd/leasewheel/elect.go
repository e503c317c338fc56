// The commands elect and acquire.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

const (
	firstElectPause = 200 * time.Millisecond // after a failed campaign; pauses double
	longElectPause  = 10 * time.Second
)

var electCommand = command{
	name: "elect", args: "-key KEY [--] COMMAND [ARGUMENT ...]",
	minArgs: 1, maxArgs: anyArgs,
	summary: "run a command while this process leads an election",
	about: `
Campaigns until it leads, runs the command, and resigns when the command has ended. If the leadership is
lost, the command is stopped as by leasewheel run, and the campaign starts over. The exit status is that of
the command that has ended by itself. A server that cannot be reached is asked again after a pause.

Signals are handled as by leasewheel run. The command finds the term of the leadership in LEASEWHEEL_TOKEN;
terms rise. leasewheel inspect shows the leader and the first candidates by their names (-id).
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o electOptions
		o.define(f)
		f.StringVar(&o.meta, "id", "", "`name` of this candidate; the default is host, process and command")
		return o.run
	},
}

type electOptions struct{ taskOptions }

// run runs the command.
func (o *electOptions) run(args []string, std streams) int {
	if err := o.check(); err != nil {
		return fail(std, err)
	}
	t, err := o.task(args, std)
	if err != nil {
		return fail(std, err)
	}
	caught := catchSignals()
	defer caught.stop()
	options, err := o.options(t)
	if err != nil {
		return fail(std, err)
	}
	var client *lockClient
	err = caught.during(func(ctx context.Context) (err error) {
		client, err = o.client(ctx, std, options)
		return err
	})
	if client == nil {
		return endOf(std, err)
	}
	result, led := o.lead(client, options.Metadata, t, caught)
	limit := leaveTimeout
	if led {
		limit = closeTimeout
	}
	if err := client.shutWithin(limit); err != nil && led {
		fmt.Fprintln(std.err, "leasewheel: a release is not confirmed:", errorText(err))
	}
	passToJob(result.typed)
	return result.status
}

// lead runs the task in each term until it ends by itself, or until a signal ends a campaign. It reports whether there was a term.
func (o *electOptions) lead(client *lockClient, name string, t *task, caught *signals) (result outcome, led bool) {
	e := client.Election(o.key, name)
	for pause := firstElectPause; ; {
		var held *lock.Held
		err := caught.during(func(ctx context.Context) (err error) {
			defer client.announce(ctx, o.key, t.std)()
			held, err = e.Campaign(ctx)
			return err
		})
		if err == nil {
			led = true
			result = t.run(held, caught)
			_ = held.Unlock(context.Background()) // the client goes on if it is not confirmed
			if result.lost == nil {
				return result, led
			}
			pause = firstElectPause
		} else {
			if held != nil {
				_ = held.Unlock(context.Background())
			}
			if !errors.Is(err, lock.ErrUnavailable) {
				return outcome{status: endOf(t.std, err)}, led
			}
			fmt.Fprintf(t.std.err, "leasewheel: %s; trying again after %v\n", errorText(err), pause)
		}
		if err := caught.during(sleep(pause)); err != nil {
			return outcome{status: endOf(t.std, err)}, led
		}
		pause = min(2*pause, longElectPause)
	}
}

// sleep returns a function that waits for d or for the end of its ctx.
func sleep(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// endOf returns the status for an error. It prints the error unless it is a signal.
func endOf(std streams, err error) int {
	var signal signalError
	if errors.As(err, &signal) {
		return statusOf(err)
	}
	return fail(std, err)
}

var acquireCommand = command{
	name: "acquire", args: "-key KEY",
	summary: "take a lock and print a handle to release it with",
	about: `
Takes the lock for the duration of -ttl, without renewing it, and prints a handle. leasewheel release
takes the handle and releases the lock, from any process. It is for scripts whose steps cannot be the
command of leasewheel run; the lock ends after the duration, whether or not they are done.

The handle is a secret: anyone who has it can release the lock.

    handle=$(leasewheel acquire -k deploy -ttl 10m) || exit
    ...
    printf %s "$handle" | leasewheel release
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o acquireOptions
		o.define(f)
		f.StringVar(&o.key, "key", "", "`key` of the lock; needed")
		alias(f, "k", "key")
		defineDuration(f, &o.ttl, "ttl", time.Minute, "`duration` of the lease, which is not renewed")
		f.StringVar(&o.meta, "meta", "", "`text` that inspect shows of the holder; the default is the host")
		o.defineWait(f)
		return o.acquire
	},
}

// acquireOptions are the flags of acquire.
type acquireOptions struct {
	connection
	waitOptions
	key  string
	ttl  time.Duration
	meta string
}

// acquire runs the command.
func (o *acquireOptions) acquire(_ []string, std streams) int {
	if o.key == "" {
		return fail(std, usageError{"-key is needed"})
	}
	if err := checkTTL(o.ttl); err != nil {
		return fail(std, err)
	}
	host, _ := os.Hostname()
	caught := catchSignals()
	defer caught.stop()
	options := lock.Options{Terms: lock.Terms{TTL: o.ttl, Fixed: true, Metadata: firstOf(o.meta, host)}, WarnAfter: -1}
	client, held, err := o.lock(o.key, options, std, caught, &o.waitOptions, func(c *lock.Client) lock.Locker { return c.Mutex(o.key) })
	if err != nil {
		return o.failed(std, err)
	}
	handle, err := held.Export()
	if err == nil {
		err = caught.during(func(ctx context.Context) error {
			return whileNot(ctx, func() error { _, err := fmt.Fprintln(std.out, handle); return err })
		})
	}
	if err != nil {
		_ = held.Unlock(context.Background())
		_ = client.shut()
		return fail(std, fmt.Errorf("the lock is released again: %w", err))
	}
	_ = held.Detach()
	_ = client.shut()
	return 0
}
