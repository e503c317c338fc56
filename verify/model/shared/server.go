// The scripts on a server with simulated time, and the checks of its keys.

package shared

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/luascript"
)

// scripts are the Lua files of package redisstore by name.
type scripts map[string]string

func readScripts() (scripts, error) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "lock", "redisstore", "lua", "*.lua"))
	if err != nil {
		return nil, err
	}
	s := scripts{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s[strings.TrimSuffix(filepath.Base(file), ".lua")] = string(source)
	}
	return s, nil
}

// read returns the text of a file.
func (s scripts) read(name string) (string, error) {
	text, ok := s[name]
	if !ok {
		return "", fmt.Errorf("no Lua file %s", name)
	}
	return text, nil
}

// server runs the scripts on a server with simulated time.
type server struct {
	mini *miniredis.Miniredis
	rdb  *redis.Client
	now  int64 // ms

	acquireScript, renewScript, stepScript, releaseScript, forceScript *redis.Script
}

func newServer(s scripts) (*server, error) {
	mini, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	srv, err := serverOn(redis.NewClient(&redis.Options{Addr: mini.Addr(), Protocol: 2, DisableIdentity: true}), s)
	if err != nil {
		return nil, err
	}
	srv.mini = mini
	return srv, nil
}

// serverOn runs the scripts on a server with its own clock.
func serverOn(rdb *redis.Client, s scripts) (*server, error) {
	srv := &server{rdb: rdb}
	for name, script := range map[string]**redis.Script{
		"shared_acquire":   &srv.acquireScript,
		"shared_renew":     &srv.renewScript,
		"shared_renew_key": &srv.stepScript,
		"shared_release":   &srv.releaseScript,
		"shared_force":     &srv.forceScript,
	} {
		source, err := luascript.Assemble(name, s.read)
		if err != nil {
			return nil, err
		}
		*script = redis.NewScript(source)
	}
	return srv, nil
}

func (s *server) close() {
	_ = s.rdb.Close()
	s.mini.Close()
}

// reset empties the server and sets its clock.
func (s *server) reset(now int64) {
	s.mini.FlushAll()
	s.now = now
	s.mini.SetTime(time.UnixMilli(now))
}

func (s *server) advance(ms int64) {
	s.now += ms
	s.mini.SetTime(time.UnixMilli(s.now))
	s.mini.FastForward(time.Duration(ms) * time.Millisecond)
}

// dropExpiredPlaces removes expired places from the reference if the server has dropped
// them together with the queue. The scripts decide how long the queue outlives its
// places.
func (s *server) dropExpiredPlaces(r *reference) {
	ends, _ := s.mini.SortedSet(keys[3])
	r.queue = slices.DeleteFunc(r.queue, func(p *lease) bool {
		_, known := ends[p.owner]
		return !known && p.end <= r.now
	})
}

// keys has the keys in the order of the scripts. The last one lacks the owner.
var keys = []string{"{n}", "{n}:t", "{n}:q", "{n}:w", "{n}:r", "{n}:k", "{n}:x:"}

func keysFor(owner string) []string {
	list := slices.Clone(keys)
	list[6] += owner
	return list
}

// acquire requests a lock, without the members if they are unsent.
func (s *server) acquire(a request, unsent bool) (reply, error) {
	packed := strings.Join(strings.Split(a.members, ""), "\n")
	if unsent {
		packed = ""
	}
	v, err := s.acquireScript.Run(context.Background(), s.rdb, keysFor(a.owner),
		a.owner, a.ttl, a.place, memory, string(a.mode), a.count(), "of "+a.owner, packed).Slice()
	switch {
	case err != nil && strings.Contains(err.Error(), "WRONGTYPE"):
		return reply{code: 2}, nil
	case err != nil:
		return reply{}, err
	}
	got := reply{code: int(v[0].(int64))}
	if got.code == 2 {
		return reply{code: 3}, nil
	}
	if len(v) > 1 {
		got.token, err = strconv.ParseUint(v[1].(string), 10, 64)
	}
	if len(v) > 2 {
		got.ms, got.head = v[2].(int64), int(v[3].(int64))
	}
	return got, err
}

// release releases a lock. A batch keeps its members taken for keep ms if that is above 0.
func (s *server) release(owner string, tombstone, keep int64) (int, error) {
	args := []any{owner, tombstone, memory}
	if keep > 0 {
		args = append(args, keep)
	}
	return s.releaseScript.Run(context.Background(), s.rdb, keysFor(owner), args...).Int()
}

func (s *server) renew(owner string, token uint64, ttl int64) (bool, error) {
	lost, err := s.renewScript.Run(context.Background(), s.rdb, []string{keys[0], keys[4], keys[5]}, ttl, renewal(owner, token)).Slice()
	return len(lost) == 0, err
}

// renewal returns the argument of the scripts that names a lease.
func renewal(owner string, token uint64) string { return fmt.Sprint(owner, " ", token) }

// renewByKey renews key by key, as the store does while the keys are on two cluster
// nodes.
func (s *server) renewByKey(a request, token uint64) (bool, error) {
	steps := []struct{ key, which string }{{keys[4], "r"}, {keys[5], "k"}, {keys[0], "h"}}
	if a.mode != members {
		steps = slices.Delete(steps, 1, 2)
	}
	for _, step := range steps {
		lost, err := s.stepScript.Run(context.Background(), s.rdb, []string{step.key}, a.ttl, renewal(a.owner, token), step.which).Slice()
		if err != nil || len(lost) > 0 && step.which != "k" {
			return false, err
		}
	}
	return true, nil
}

func (s *server) force(seen uint64) (int, error) {
	total := 0
	for cursor := "0"; cursor != ""; {
		v, err := s.forceScript.Run(context.Background(), s.rdb, keys[:6], seen, memory, cursor).Slice()
		if err != nil {
			return 0, err
		}
		total += int(v[0].(int64))
		cursor = v[1].(string)
	}
	return total, nil
}

// compare returns the first difference between the keys and the reference.
func (s *server) compare(r *reference) error {
	for _, key := range s.mini.Keys() {
		if s.mini.TTL(key) <= 0 {
			return fmt.Errorf("key %s does not expire", key)
		}
	}
	ends, _ := s.mini.SortedSet(keys[0])
	live := 0
	for owner, end := range ends {
		if end <= float64(s.now) {
			continue
		}
		live++
		l := r.leases[owner]
		if l == nil {
			return fmt.Errorf("unexpected lease of %s", owner)
		}
		record := fmt.Sprintf("%c %d ", l.mode, l.token)
		if got := s.mini.HGet(keys[4], owner); end != l.score() || !strings.HasPrefix(got, record) {
			return fmt.Errorf("lease of %s: record %s until %.1f, want %s until %.1f", owner, got, end, record, l.score())
		}
		for _, m := range l.members {
			if got := s.mini.HGet(keys[5], string(m)); got != owner {
				return fmt.Errorf("member %c belongs to %q, want %s", m, got, owner)
			}
		}
	}
	for owner, l := range r.leases {
		if _, ok := ends[owner]; !ok && l.end > s.now {
			return fmt.Errorf("no lease of %s", owner)
		}
	}
	if err := s.compareExtraPermits(r, ends); err != nil {
		return err
	}
	return s.compareQueue(r)
}

// compareExtraPermits checks the number of permits that the holders have besides one each. It
// may contain those of leases that have expired.
func (s *server) compareExtraPermits(r *reference, ends map[string]float64) error {
	want := 0
	for owner := range ends {
		_, permits, several := strings.Cut(strings.SplitN(s.mini.HGet(keys[4], owner)+"   ", " ", 4)[2], "/")
		if several {
			n, err := strconv.Atoi(permits)
			if err != nil {
				return err
			}
			want += n - 1
		}
	}
	live := 0
	for _, l := range r.leases {
		live += l.wanted() - 1
	}
	got, _ := strconv.Atoi(s.mini.HGet(keys[4], "{extra}"))
	if len(ends) > 0 && (got != want || got < live) {
		return fmt.Errorf("%d extra permits, want %d, of which %d are of live leases", got, want, live)
	}
	return nil
}

// score returns the end of a lease in the form of the keys.
func (l *lease) score() float64 {
	if l.kept {
		return float64(l.end) - 0.5
	}
	return float64(l.end)
}

func (s *server) compareQueue(r *reference) error {
	tickets, _ := s.mini.SortedSet(keys[2])
	ends, _ := s.mini.SortedSet(keys[3])
	queue := slices.SortedFunc(maps.Keys(tickets), func(a, b string) int { return int(tickets[a] - tickets[b]) })
	want := make([]string, len(r.queue))
	for i, p := range r.queue {
		want[i] = p.owner
		if int64(ends[p.owner]) != p.end {
			return fmt.Errorf("place of %s ends at %.0f, want %d", p.owner, ends[p.owner], p.end)
		}
		score, ok := ends[p.owner+"}"]
		if !ok {
			return fmt.Errorf("place of %s without a length", p.owner)
		}
		length, since := math.Modf(-score)
		if math.Abs(since*1e13-float64(p.since)) > 1+length/100 { // a score has 53 bits
			return fmt.Errorf("place of %s is taken at %.0f, want %d", p.owner, since*1e13, p.since)
		}
	}
	if !slices.Equal(want, queue) || len(ends) != 2*len(queue) {
		return fmt.Errorf("queue %v with %d places, want %v", queue, len(ends), want)
	}
	return nil
}

// checkOrphans finds records of owners that neither hold nor wait. It accepts them
// while the scripts are still sweeping.
func (s *server) checkOrphans() error {
	ends, _ := s.mini.SortedSet(keys[0])
	tickets, _ := s.mini.SortedSet(keys[2])
	known, _ := s.mini.HKeys(keys[4])
	if slices.Contains(known, "{sweep}") {
		return nil
	}
	for _, field := range known {
		owner := strings.TrimLeft(field, "{}")
		_, holds := ends[owner]
		_, waits := tickets[owner]
		if !holds && !waits && field != "{mode}" && field != "{extra}" {
			return fmt.Errorf("orphaned record %s", field)
		}
	}
	taken, _ := s.mini.HKeys(keys[5])
	for _, m := range taken {
		if _, holds := ends[s.mini.HGet(keys[5], m)]; !holds {
			return fmt.Errorf("member %s belongs to %s, which holds nothing", m, s.mini.HGet(keys[5], m))
		}
	}
	return nil
}
