// The options of a Store.

package sqlstore

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"
)

const (
	defaultTable   = "leasewheel"
	defaultTimeout = 5 * time.Second
	defaultPoll    = 100 * time.Millisecond
	minPoll        = time.Millisecond
	defaultKeep    = 24 * time.Hour
	minKeep        = 10 * time.Minute

	// place is how long a place in a queue lasts after the last request of its waiter, or
	// one TTL if that is shorter. It bounds how long dead waiters delay the ones behind them.
	place = 10 * time.Second

	// tombstone is how long an owner is refused that was released with an unanswered request.
	tombstone = 61 * time.Second
)

// Options configure a Store. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Table begins the names of all tables, and an underscore follows it. A schema may
	// precede it, as in "app.jobs", but not in SQLite, and must if several schemas of a PostgreSQL database have such tables. It has lower-case letters, digits and
	// underscores, and at most 40 of them in each part. Programs that share locks use the same one.
	// Default "leasewheel", for the tables leasewheel_locks, leasewheel_places and so on.
	Table string

	// Pessimistic makes every Acquire and Release a transaction that locks the row of its key
	// before it decides. Otherwise one statement compares and writes, where that suffices, and
	// a transaction is needed only for a key with waiters. Both ways may be used at the same
	// time. The pessimistic way costs two to four more round trips for each call.
	Pessimistic bool

	// SynchronousCommit is what PostgreSQL waits for when it commits a change of a lock: "on",
	// "remote_apply", "remote_write" or "local". With synchronous replicas (the server's
	// synchronous_standby_names), "on" keeps a grant through a fail-over to one of them. It
	// applies to the transactions of the store only. The default "" leaves the setting of the
	// database as it is. A setting of "off" there loses grants when the server crashes, which
	// gives a lock two holders; New refuses it here.
	SynchronousCommit string

	// Timeout bounds each request, and with it how long the database may seem to hang. The ctx
	// of a call may end it earlier. Renewals are bounded by their ctx alone. Default 5 s.
	Timeout time.Duration

	// PollInterval is how often a store reads the row of a lock whose first waiter it has, to find out
	// that the lock was handed over. A store with one waiter before its own takes twice as long, and so
	// on. While holders keep the lock for less than a second, stores read more often, at most every 10 ms.
	// The interval matters only for hand-overs between processes without a Listener. Default 100 ms.
	PollInterval time.Duration

	// Listener notifies waiters at once that they were handed a lock by another process. Only
	// PostgreSQL has messages; package pglisten is a Listener. Without one, waiters poll.
	// The caller closes it, after the store.
	Listener Listener

	// KeepTokens is for how long Sweep leaves the row of a lock that is free. Tokens are
	// instants, so after that they rise only if the clock of the database has not been set
	// back by more. At least 10 min; default 24 h.
	KeepTokens time.Duration
}

// Listener receives the messages of the database for this process. Its methods are called
// concurrently.
type Listener interface {
	// Channel returns the name of the channel on which messages arrive at present, or "" if
	// none can arrive, for example because the connection is broken.
	Channel() string

	// Subscribe calls wake for each message with the given text that arrives on the channel,
	// and whenever Channel has changed. wake returns at once. Further messages are not passed
	// on after the returned function was called.
	Subscribe(text string, wake func()) (unsubscribe func())
}

var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,39}\.)?[a-z_][a-z0-9_]{0,39}$`)

// checked returns the options with all defaults, or an error that names the bad field.
func (o *Options) checked(d dialect) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	c.Table = cmp.Or(c.Table, defaultTable)
	if !tableName.MatchString(c.Table) || strings.Contains(c.Table, ".") && !d.traits().schemas {
		return c, fmt.Errorf("sqlstore: Options.Table is %q, want lower-case letters, digits and underscores, such as %q", c.Table, defaultTable)
	}
	switch c.SynchronousCommit {
	case "":
	case "on", "remote_apply", "remote_write", "local":
		if !d.traits().synchronousCommit {
			return c, fmt.Errorf("sqlstore: Options.SynchronousCommit is a setting of PostgreSQL, and the dialect is %s", d.traits().name)
		}
	default:
		return c, fmt.Errorf("sqlstore: Options.SynchronousCommit is %q, want on, remote_apply, remote_write or local", c.SynchronousCommit)
	}
	if c.Listener != nil && !d.traits().messages {
		return c, fmt.Errorf("sqlstore: Options.Listener is set, and %s has no messages", d.traits().name)
	}
	for _, f := range []struct {
		name          string
		value         *time.Duration
		standard, min time.Duration
	}{
		{"Timeout", &c.Timeout, defaultTimeout, time.Millisecond},
		{"PollInterval", &c.PollInterval, defaultPoll, minPoll},
		{"KeepTokens", &c.KeepTokens, defaultKeep, minKeep},
	} {
		if *f.value = cmp.Or(*f.value, f.standard); *f.value < f.min {
			return c, fmt.Errorf("sqlstore: Options.%s is %v, want at least %v", f.name, *f.value, f.min)
		}
	}
	return c, nil
}
