package crowd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// scripts are the sources in use, by the name of their file.
type scripts map[string]string

func readScripts() (scripts, error) {
	s := scripts{}
	for _, name := range []string{"tokens", "queue", "shared_prelude", "shared_acquire", "shared_renew", "shared_release", "shared_force"} {
		source, err := os.ReadFile(filepath.Join("..", "..", "lock", "redisstore", "lua", name+".lua"))
		if err != nil {
			return nil, err
		}
		s[name] = string(source)
	}
	return s, nil
}

// server runs the scripts in a time of our own.
type server struct {
	mini *miniredis.Miniredis
	rdb  *redis.Client
	now  int64 // ms

	acquireScript, renewScript, releaseScript, forceScript *redis.Script
}

func newServer(s scripts) (*server, error) {
	mini, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	before := s["tokens"] + s["queue"] + s["shared_prelude"]
	return &server{
		mini:          mini,
		rdb:           redis.NewClient(&redis.Options{Addr: mini.Addr(), Protocol: 2, DisableIdentity: true}),
		acquireScript: redis.NewScript(before + s["shared_acquire"]),
		renewScript:   redis.NewScript(s["shared_renew"]),
		releaseScript: redis.NewScript(before + s["shared_release"]),
		forceScript:   redis.NewScript(before + s["shared_force"]),
	}, nil
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

// forget takes out of the rules the dead places that have gone with the queue: how
// long it outlasts them is for the scripts to say.
func (s *server) forget(r *rules) {
	ends, _ := s.mini.SortedSet(keys[3])
	r.queue = slices.DeleteFunc(r.queue, func(p *tenure) bool {
		_, known := ends[p.owner]
		return !known && p.end <= r.now
	})
}

// keys in the order of the scripts; the last is without the owner.
var keys = []string{"{n}", "{n}:t", "{n}:q", "{n}:w", "{n}:r", "{n}:k", "{n}:x:"}

func keysFor(owner string) []string {
	list := slices.Clone(keys)
	list[6] += owner
	return list
}

func (s *server) acquire(a ask) (answer, error) {
	limit := a.limit
	if a.mode == members {
		limit = len(a.members)
	}
	v, err := s.acquireScript.Run(context.Background(), s.rdb, keysFor(a.owner),
		a.owner, a.ttl, a.place, memory, string(a.mode), limit, "of "+a.owner, strings.Join(strings.Split(a.members, ""), "\n")).Slice()
	switch {
	case err != nil && strings.Contains(err.Error(), "WRONGTYPE"):
		return answer{code: 2}, nil
	case err != nil:
		return answer{}, err
	}
	got := answer{code: int(v[0].(int64))}
	if len(v) > 1 {
		got.token, err = strconv.ParseUint(v[1].(string), 10, 64)
	}
	if len(v) > 2 {
		got.ms, got.head = v[2].(int64), int(v[3].(int64))
	}
	return got, err
}

func (s *server) release(owner string, tombstone int64) (int, error) {
	return s.releaseScript.Run(context.Background(), s.rdb, keysFor(owner), owner, tombstone, memory).Int()
}

func (s *server) renew(owner string, token uint64, ttl int64) (bool, error) {
	lost, err := s.renewScript.Run(context.Background(), s.rdb, []string{keys[0], keys[4], keys[5]}, ttl, fmt.Sprint(owner, " ", token)).Slice()
	return len(lost) == 0, err
}

func (s *server) force(seen uint64) (int, error) {
	return s.forceScript.Run(context.Background(), s.rdb, keys[:6], seen, memory).Int()
}

// compare names what lies at the keys and should not, by the rules.
func (s *server) compare(r *rules) error {
	for _, key := range s.mini.Keys() {
		if s.mini.TTL(key) <= 0 {
			return fmt.Errorf("%s has no end", key)
		}
	}
	ends, _ := s.mini.SortedSet(keys[0])
	live := 0
	for owner, end := range ends {
		if int64(end) <= s.now {
			continue
		}
		live++
		l := r.leases[owner]
		if l == nil {
			return fmt.Errorf("%s has a lease", owner)
		}
		record := fmt.Sprintf("%c %d ", l.mode, l.token)
		if got := s.mini.HGet(keys[4], owner); l.end != int64(end) || !strings.HasPrefix(got, record) {
			return fmt.Errorf("%s: %s, until %.0f, and not %s, until %d", owner, got, end, record, l.end)
		}
		for _, m := range l.members {
			if got := s.mini.HGet(keys[5], string(m)); got != owner {
				return fmt.Errorf("%c is of %q, and not of %s", m, got, owner)
			}
		}
	}
	for owner, l := range r.leases {
		if _, ok := ends[owner]; !ok && l.end > s.now {
			return fmt.Errorf("%s has no lease", owner)
		}
	}
	return s.compareQueue(r)
}

func (s *server) compareQueue(r *rules) error {
	tickets, _ := s.mini.SortedSet(keys[2])
	ends, _ := s.mini.SortedSet(keys[3])
	queue := slices.SortedFunc(maps.Keys(tickets), func(a, b string) int { return int(tickets[a] - tickets[b]) })
	want := make([]string, len(r.queue))
	for i, p := range r.queue {
		want[i] = p.owner
		if int64(ends[p.owner]) != p.end {
			return fmt.Errorf("the place of %s ends at %.0f, and not at %d", p.owner, ends[p.owner], p.end)
		}
	}
	if !slices.Equal(want, queue) || len(ends) != len(queue) {
		return fmt.Errorf("in the queue are %v with %d places, and not %v", queue, len(ends), want)
	}
	return nil
}

// strays names an owner that is known though it neither holds nor waits.
func (s *server) strays() error {
	ends, _ := s.mini.SortedSet(keys[0])
	tickets, _ := s.mini.SortedSet(keys[2])
	known, _ := s.mini.HKeys(keys[4])
	for _, field := range known {
		owner := strings.TrimPrefix(field, "{")
		_, holds := ends[owner]
		_, waits := tickets[owner]
		if !holds && !waits && field != "{mode}" {
			return fmt.Errorf("%s is known for nothing", field)
		}
	}
	taken, _ := s.mini.HKeys(keys[5])
	for _, m := range taken {
		if _, holds := ends[s.mini.HGet(keys[5], m)]; !holds {
			return fmt.Errorf("%s is of %s, that holds nothing", m, s.mini.HGet(keys[5], m))
		}
	}
	return nil
}
