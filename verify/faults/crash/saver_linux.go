// The role saver, its log, and the check that the saves form a chain.

package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

const stateTTL = time.Hour

// saveLine is a line of the log: the holder with a token was given a count, which the holder with the token From has
// saved, and saves the next one.
type saveLine struct {
	Key         string
	Token, From uint64
	Told        int
	Outcome     string
}

// Outcomes of a save. A line without one of the last two is written before the save.
const (
	unsure  = "unsure"  // was sent, or will be, or the client does not know
	saved   = "saved"   // the server has confirmed it
	refused = "refused" // the server has denied the ownership, and was asked once
)

// saveWithLocks counts in the state of each key, those with an even index with a Client and the others
// without one: the store alone does not know that a lease has ended, so each late save is sent to the
// server.
func saveWithLocks(ctx context.Context, client *lock.Client, rdb *redis.Client, o order) error {
	log, err := os.OpenFile(o.Log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		return err
	}
	if err := send(lockedReport{}); err != nil {
		return err
	}
	client = client.With(lock.Terms{StateTTL: stateTTL})
	var work sync.WaitGroup
	for i, key := range o.Keys {
		work.Go(func() {
			for ctx.Err() == nil {
				if i%2 == 0 {
					saveAsHolder(ctx, client, key, log)
				} else {
					saveInStore(ctx, store, key, o.TTL, log)
				}
			}
		})
	}
	work.Wait()
	return log.Close()
}

// errUnsure is any error of Held.Save, which may have been executed at its first try.
var errUnsure = errors.New("the save may have been executed")

func saveAsHolder(ctx context.Context, client *lock.Client, key string, log *os.File) {
	held, err := client.Mutex(key).Lock(ctx)
	if err != nil {
		return
	}
	data, from := held.State()
	countOn(log, saveLine{Key: key, Token: held.Token(), From: from}, data, func(next []byte) error {
		if held.Save(ctx, next) != nil {
			return errUnsure
		}
		return nil
	})
	_ = held.Unlock(ctx)
}

func saveInStore(ctx context.Context, store *redisstore.Store, key string, ttl time.Duration, log *os.File) {
	r := driver.Request{Key: key, Owner: fmt.Sprintf("saver:%027d", rand.Uint64()), TTL: ttl, Attrs: &driver.Attrs{Stateful: true}}
	lease, err := store.Acquire(ctx, r)
	if err != nil {
		time.Sleep(rand.N(4 * time.Millisecond))
		return
	}
	countOn(log, saveLine{Key: key, Token: lease.Token, From: lease.Saved.Token}, lease.Saved.Data, func(next []byte) error {
		return store.Save(ctx, lease, 1, next, stateTTL)
	})
	_ = store.Release(ctx, lease)
}

// countOn saves the next count after a while, in which the process may be stopped.
func countOn(log *os.File, l saveLine, data []byte, save func(next []byte) error) {
	l.Told, _ = strconv.Atoi(string(data)) // 0 if there is no state
	l.write(log, unsure)
	time.Sleep(rand.N(20 * time.Millisecond))
	err := save(strconv.AppendInt(nil, int64(l.Told)+1, 10))
	switch {
	case err == nil:
		l.write(log, saved)
	case errors.Is(err, driver.ErrNotHeld):
		l.write(log, refused)
	}
}

func (l saveLine) write(log *os.File, outcome string) {
	fmt.Fprintf(log, "%s %d %d %d %s\n", l.Key, l.Token, l.From, l.Told, outcome)
}

// checkSaves reads a log, and returns how often each outcome was the last one, and what is wrong: a
// holder that was given another count than that of the last save before its token that was confirmed, or
// of a later one that is unsure.
func checkSaves(text string) (counts map[string]int, wrong []string) {
	tenures, counts := map[string]map[uint64]saveLine{}, map[string]int{}
	for line := range strings.Lines(text) {
		var l saveLine
		if n, err := fmt.Sscanf(line, "%s %d %d %d %s\n", &l.Key, &l.Token, &l.From, &l.Told, &l.Outcome); n < 5 || err != nil {
			wrong = append(wrong, fmt.Sprintf("a line that no saver writes: %q", line))
			continue
		}
		if tenures[l.Key] == nil {
			tenures[l.Key] = map[uint64]saveLine{0: {Told: -1, Outcome: saved}} // no state counts as 0
		}
		tenures[l.Key][l.Token] = l
	}
	for key, all := range tenures {
		confirmed := uint64(0)
		for _, token := range slices.Sorted(maps.Keys(all))[1:] {
			l := all[token]
			from, known := all[l.From]
			if !known || from.Outcome == refused || l.From < confirmed || l.From >= token || l.Told != from.Told+1 {
				wrong = append(wrong, fmt.Sprintf("%s: token %d was told %d of token %d (%s), the last confirmed save is that of token %d",
					key, token, l.Told, l.From, cmp.Or(from.Outcome, "unknown"), confirmed))
			}
			if l.Outcome == saved {
				confirmed = token
			}
			counts[l.Outcome]++
		}
	}
	return counts, wrong
}
