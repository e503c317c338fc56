package redisstore

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// FuzzState stores arbitrary values at the keys of a lock, does one operation, and checks the
// keys afterwards.
//
// kinds has three bits for each of the lock, its token, its queue and its places: 0 means no
// key, 1 the right type, and others a wrong type. 0x1e separates the elements of the queue
// and of the places. A place is a score, a space and its owner.
func FuzzState(f *testing.F) {
	const all = 0o1111
	for _, seed := range []struct {
		op                         uint8
		kinds                      uint16
		lock, token, queue, places string
	}{
		{0, 0, "", "", "", ""},
		{0, all, "a:1 17", "17", "b:1\x1eb:2", "9e12 b:1\x1e9e12 b:2"},
		{0, 0o1110, "", "17", "b:1\x1eb:2", "9e12 b:1\x1e1 b:2"},
		{0, 0o1110, "", "17", "b:1", "inf b:1"},
		{0, 0o1110, "", "17", "b:1", "-inf b:1"},
		{0, 0o1110, "", "17", "b:1", "1e300 b:1"},
		{0, 0o1110, "", "17", "\x1eb", "9e15 \x1e9e12 b"},
		{0, 0o0010, "", "9007199254740991", "", ""},
		{0, 0o0010, "", "9007199254740990", "", ""},
		{0, 0o0010, "", "1e3", "", ""},
		{0, 0o0010, "", "-1", "", ""},
		{0, 0o0010, "", "99999999999999999", "", ""},
		{0, 1, "c:1 17", "", "", ""},
		{0, 1, "c:1 017", "", "", ""},
		{0, 1, "c:1 99999999999999999999", "", "", ""},
		{0, 1, "17", "", "", ""},
		{0, 1, " 17", "", "", ""},
		{0, 1, "x 0", "", "", ""},
		{0, 2, "", "", "", ""},
		{0, 0o2221, "a:1 17", "", "", ""},
		{1, 0o2221, "a:1 17", "", "", ""},
		{1, 0o1221, "a:1 17", "", "", "9e12 b:1"},
		{1, 0o2010, "", "17", "b:1", "b:1"},
		{1, 0o0110, "", "17", "c:1", ""},
		{1, all, "a:1 17", "17", "c:1", "9e12 c:1"},
		{1, 0o1001, "a:1 17", "17", "", "9e12 c:1"},
		{1, 0o1110, "", "17", "c:1\x1eb:1", "9e12 c:1\x1e9e12 b:1"},
		{2, all, "c:1 17", "17", "b:1", "9e12 b:1"},
		{2, all, "c:1 17", "x", "b:1", "9e12 b:1"},
		{2, all, "c:1 17", "17", "b:1", "inf b:1"},
		{2, 0o2111, "c:1 17", "17", "b:1", ""},
		{2, 4, "", "", "", ""},
		{2, 0o1101, "a:1 17", "", "c:1\x1ec:1", "9e12 c:1"},
		{3, 1, "c:1 17", "", "", ""},
		{3, 1, "c:1 18", "", "", ""},
		{3, 3, "", "", "", ""},
		{4, all, "a:1 17", "18", "b:1", "1 b:1"},
		{4, 0o1141, "a:1 17", "", "b:1", ""},
		{4, 1, "text", "", "", ""},
		{5, all, "a:1 17", "18", "b:1", "9e12 b:1"},
		{5, 0o3331, "a:1 17", "", "", ""},
		{5, 1, "text", "", "", ""},
	} {
		f.Add(seed.op, seed.kinds, seed.lock, seed.token, seed.queue, seed.places)
	}
	s, rdb := sharedStore(f)
	f.Fuzz(func(t *testing.T, op uint8, kinds uint16, lock, token, queue, places string) {
		if len(lock)+len(token)+len(queue)+len(places) > 4000 {
			t.Skip()
		}
		x := &foreignState{t: t, s: s, rdb: rdb, k: s.keys("k", "c:1")}
		x.clear()
		x.put(kinds, lock, token, queue, places)
		x.before, x.value = x.dump(), x.held()
		x.do(op)
		x.clear()
	})
}

// foreignState is a lock whose keys have arbitrary values.
type foreignState struct {
	t      *testing.T
	s      *Store
	rdb    *redis.Client
	k      *keys
	before [5]string // the dumps of all keys before the operation
	value  string    // of the lock, "" if it is not a string
}

func (x *foreignState) clear() {
	require.NoError(x.t, x.rdb.Unlink(x.t.Context(), all(x.k)...).Err())
}

func (x *foreignState) put(kinds uint16, lock, token, queue, places string) {
	ctx, pipe := x.t.Context(), x.rdb.Pipeline()
	right := [4]func(){
		func() { pipe.Set(ctx, x.k.lock, lock, ttl30) },
		func() { pipe.Set(ctx, x.k.token, token, ttl30) },
		func() {
			for item := range strings.SplitSeq(queue, "\x1e") {
				pipe.RPush(ctx, x.k.queue, item)
			}
		},
		func() {
			for item := range strings.SplitSeq(places, "\x1e") {
				text, owner, _ := strings.Cut(item, " ")
				if score, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(score) {
					pipe.ZAdd(ctx, x.k.places, redis.Z{Score: score, Member: owner})
				}
			}
		},
	}
	for i, key := range all(x.k)[:4] {
		switch kinds >> (3 * i) & 7 {
		case 0:
		case 1:
			right[i]()
		case 2:
			pipe.HSet(ctx, key, "c:1", "1")
		case 3:
			pipe.SAdd(ctx, key, "c:1")
		case 4:
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"c:1", "1"}})
		case 5:
			pipe.RPush(ctx, key, "c:1")
		case 6:
			pipe.ZAdd(ctx, key, redis.Z{Score: 1, Member: "c:1"})
		case 7:
			pipe.Set(ctx, key, "\x00c:1 17", 0)
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx) // the server refuses the right type after a wrong one, which is fine
	}
}

func (x *foreignState) dump() (all5 [5]string) {
	for i, key := range all(x.k) {
		all5[i] = x.rdb.Dump(x.t.Context(), key).Val()
	}
	return all5
}

func (x *foreignState) held() string { return x.rdb.Get(x.t.Context(), x.k.lock).Val() }

// ownerIn returns the owner in a value of the lock; the package comment has the format.
func ownerIn(value string) (owner string, ok bool) {
	space := strings.LastIndexByte(value, ' ')
	if space < 0 || value[space+1:] == "" || strings.Trim(value[space+1:], "0123456789") != "" {
		return "", false
	}
	return value[:space], true
}

func (x *foreignState) do(op uint8) {
	r := driver.Request{Key: "k", Owner: "c:1", TTL: ttl30}
	mine := driver.Lease{Request: r, Token: 17}
	switch op % 6 {
	case 0, 1:
		x.acquire(r, op%6 == 1)
	case 2:
		err := x.s.Release(x.t.Context(), mine)
		owner, ok := ownerIn(x.value)
		assert.Equal(x.t, err == nil, ok && owner == "c:1" && x.held() != x.value, "%q: %v", x.value, err)
		if err != nil {
			x.sameLock()
		}
	case 3:
		got := renew(x.t, x.s, mine)[0]
		assert.Equal(x.t, x.value == "c:1 17", got == renewal.Renewed)
		assert.Equal(x.t, x.value != "c:1 17", got.IsLost())
		x.same()
	case 4:
		info, err := x.s.Inspect(x.t.Context(), "k")
		assert.True(x.t, err != nil || (info.Held > 0) == (x.before[0] != ""))
		x.same()
	case 5:
		err := x.s.ForceRelease(x.t.Context(), "k")
		_, ok := ownerIn(x.value)
		assert.True(x.t, err != nil || ok)
		if err != nil {
			x.sameLock()
		}
	}
}

func (x *foreignState) acquire(r driver.Request, queue bool) {
	l, err := driver.Lease{}, error(nil)
	if queue {
		var a acquired
		if a, err = x.s.sendAcquire(x.t.Context(), r, x.s.place(r.TTL)); err == nil && a.verdict == taken {
			err = &driver.HeldError{Key: "k"}
		} else if err == nil {
			l.Token = a.token
		}
	} else {
		l, err = x.s.Acquire(x.t.Context(), r)
	}
	owner, ok := ownerIn(x.held())
	var other *driver.HeldError
	switch {
	case err == nil:
		require.True(x.t, ok && owner == "c:1")
		assert.Equal(x.t, []renewal.Outcome{renewal.Renewed}, renew(x.t, x.s, driver.Lease{Request: r, Token: l.Token}), "%q", x.held())
		around(x.t, ttl30, x.rdb.PTTL(x.t.Context(), x.k.lock).Val())
	case errors.As(err, &other):
		assert.True(x.t, ok && owner != "c:1", "%q", x.held())
	case x.before[0] == "": // a waiter may have the lock now, but not this owner
		assert.NotEqual(x.t, "c:1", owner)
	default:
		x.sameLock()
	}
	if _, ok := ownerIn(x.value); x.before[0] != "" && !ok {
		require.ErrorIs(x.t, err, driver.ErrWrongType)
		x.same()
	}
}

// sameLock checks that the key of the lock is unchanged.
func (x *foreignState) sameLock() { assert.Equal(x.t, x.before[0], x.dump()[0]) }

// same checks that all keys are unchanged.
func (x *foreignState) same() { assert.Equal(x.t, x.before, x.dump()) }

// FuzzMembers acquires two batches of arbitrary members, which 0x1e separates. The second
// batch is granted if it has no member in common with the first.
func FuzzMembers(f *testing.F) {
	for _, seed := range [][3]string{
		{"a", "b", ""}, {"a\x1eb", "b\x1ec", "m"}, {"a\nb", "a\x1eb", "a\nb"}, {"a\\nb", "a\nb", "\x00"}, {"\\", "\\\\", "r 17 1 x"}, {"\x00", "\x00\x00", "\xff"}, {"{mode}", "c:1", "}"}, {" ", "\r\n", "%d"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	s, rdb := sharedStore(f)
	f.Fuzz(func(t *testing.T, one, other, metadata string) {
		first, second := batchOf(one), batchOf(other)
		if len(first) == 0 || len(second) == 0 || len(one)+len(other) > 4000 || len(metadata) > driver.MaxMetadataLen {
			t.Skip()
		}
		k := s.sharedKeys("k", "")
		a := driver.Request{Key: "k", Owner: "c:1", TTL: ttl30, Mode: driver.Members, Attrs: &driver.Attrs{Members: first, Metadata: metadata}}
		b := driver.Request{Key: "k", Owner: "c:2", TTL: ttl30, Mode: driver.Members, Attrs: &driver.Attrs{Members: second}}
		leases := []driver.Lease{acquire(t, s, a)}
		info, err := s.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		assert.Equal(t, metadata, info.Holders[0].Metadata)
		l, err := s.Acquire(t.Context(), b)
		common := slices.ContainsFunc(first, func(m string) bool { return slices.Contains(second, m) })
		require.Equal(t, common, errors.Is(err, driver.ErrNotAcquired), "%v", err)
		if !common {
			require.NoError(t, err)
			leases = append(leases, l)
		}
		assert.NotContains(t, renew(t, s, leases...), renewal.Lost)
		for _, l := range leases {
			require.NoError(t, s.Release(t.Context(), l))
		}
		assert.Equal(t, []string{k.token}, keysOf(t, rdb, s.prefix), "only the last token remains")
		require.NoError(t, rdb.Unlink(t.Context(), k.token).Err())
	})
}

// batchOf returns members in the order of a batch, without duplicates.
func batchOf(text string) []string {
	members := strings.Split(text, "\x1e")
	slices.Sort(members)
	return slices.DeleteFunc(slices.Compact(members), func(m string) bool { return m == "" })
}

// FuzzSharedState is FuzzState for shared locks. kinds has three bits for each of the
// holders, the token, the queue, the places, the records and the members. 0x1e separates
// their elements: a score or a value, a space, and an owner or a field.
func FuzzSharedState(f *testing.F) {
	const all = 0o111111
	for _, seed := range []struct {
		op                                              uint8
		kinds                                           uint32
		holders, token, queue, places, records, members string
	}{
		{0, 0, "", "", "", "", "", ""},
		{0, all, "9e12 a:1", "17", "1 b:1", "9e12 b:1", "w_17_1_ a:1\x1ew_0_1_ b:1\x1er {mode}", ""},
		{4, all, "9e12 a:1", "17", "1 b:1", "9e12 b:1", "r_17_1_ a:1\x1er_0_1_ b:1\x1er {mode}", ""},
		{3, all, "9e12 a:1", "17", "", "", "m_17_1_ a:1\x1em {mode}\x1ex {a:1", "a:1 x"},
		{7, all, "1 a:1", "17", "1 c:1", "9e12 c:1", "m_17_1_ a:1\x1em_0_1_ c:1\x1ex {c:1\x1em {mode}", "a:1 x"},
		{2, all, "9e14 a:1", "17", "-9e14 b:1", "9e14 b:1", "p_17_2_ a:1\x1ep {mode}", ""},
		{1, all, "inf c:1", "17", "inf b:1", "1e300 b:1", "w_17_1_ c:1\x1ew_0_1_ b:1\x1er {mode}", ""},
		{8, all, "inf c:1", "17", "-inf b:1", "inf b:1", "w_17_1_ c:1\x1ew_0_1_ b:1\x1er {mode}", ""},
		{9, all, "inf a:1\x1e9e12 c:1", "17", "", "", "r_16_1_ a:1\x1er_17_1_ c:1\x1er {mode}", ""},
		{0, 0o111112, "", "17", "", "", "r {mode}", ""},
		{5, 0o111211, "9e12 a:1", "17", "", "", "r {mode}", ""},
		{1, 0o212111, "9e12 a:1", "17", "", "", "", ""},
		{8, all, "9e12 c:1", "17", "1 b:1", "9e12 b:1", "w_17_1_ c:1\x1er_0_1_ b:1\x1er {mode}", ""},
		{8, all, "9e12 c:1", "x", "1 b:1", "9e12 b:1", "w c:1", ""},
		{9, all, "9e12 c:1", "17", "", "", "w_17_1_ c:1\x1er {mode}", ""},
		{9, 0o111113, "", "", "", "", "", ""},
		{10, all, "9e12 c:1\x1e9e12 d:1", "17", "", "", "r_17_1_ c:1\x1er_18_1_ d:1", ""},
		{11, all, "9e12 c:1\x1e9e12 d:1", "18", "", "", "r_17_1_ c:1\x1er_18_1_ d:1\x1er {mode}", ""},
		{11, 2, "", "", "", "", "", ""},
	} {
		f.Add(seed.op, seed.kinds, seed.holders, seed.token, seed.queue, seed.places, seed.records, seed.members)
	}
	s, rdb := sharedStore(f)
	f.Fuzz(func(t *testing.T, op uint8, kinds uint32, holders, token, queue, places, records, members string) {
		if len(holders)+len(token)+len(queue)+len(places)+len(records)+len(members) > 4000 {
			t.Skip()
		}
		x := &foreignSharedState{t: t, s: s, rdb: rdb, k: s.sharedKeys("k", "c:1")}
		require.NoError(t, rdb.Unlink(t.Context(), x.keys()...).Err())
		x.put(kinds, holders, token, queue, places, records, members)
		x.do(op, kinds&7)
	})
}

// foreignSharedState is a shared lock whose keys have arbitrary values.
type foreignSharedState struct {
	t   *testing.T
	s   *Store
	rdb *redis.Client
	k   *keys
}

func (x *foreignSharedState) keys() []string {
	return []string{x.k.lock, x.k.token, x.k.queue, x.k.places, x.k.records, x.k.members, x.k.tombstone}
}

func (x *foreignSharedState) put(kinds uint32, texts ...string) {
	ctx := x.t.Context()
	for i, key := range x.keys()[:6] {
		if i == 1 {
			if kinds>>3&7 == 1 {
				require.NoError(x.t, x.rdb.Set(ctx, key, texts[i], ttl30).Err())
			}
			continue
		}
		switch kinds >> (3 * i) & 7 {
		case 2:
			require.NoError(x.t, x.rdb.Set(ctx, key, "c:1 17", 0).Err())
		case 3:
			require.NoError(x.t, x.rdb.RPush(ctx, key, "c:1").Err())
		case 1:
			for item := range strings.SplitSeq(texts[i], "\x1e") {
				value, name, _ := strings.Cut(item, " ")
				if i >= 4 {
					require.NoError(x.t, x.rdb.HSet(ctx, key, name, strings.ReplaceAll(value, "_", " ")).Err())
				} else if score, err := strconv.ParseFloat(value, 64); err == nil && !math.IsNaN(score) {
					require.NoError(x.t, x.rdb.ZAdd(ctx, key, redis.Z{Score: score, Member: name}).Err())
				}
			}
		}
	}
}

func (x *foreignSharedState) dump() (all [6]string) {
	for i, key := range x.keys()[:6] {
		all[i] = x.rdb.Dump(x.t.Context(), key).Val()
	}
	return all
}

// holds reports whether the owner has an unexpired lease, and returns its record.
func (x *foreignSharedState) holds() (bool, string) {
	ends, err := x.rdb.ZScore(x.t.Context(), x.k.lock, "c:1").Result()
	return err == nil && ends > float64(time.Now().UnixMilli()), x.rdb.HGet(x.t.Context(), x.k.records, "c:1").Val()
}

func (x *foreignSharedState) do(op uint8, kind uint32) {
	before := x.dump()
	held, record := x.holds()
	mode := []driver.Mode{driver.Read, driver.Write, driver.Permit, driver.Members}[op%4]
	r := driver.Request{Key: "k", Owner: "c:1", TTL: ttl30, Mode: mode, Attrs: &driver.Attrs{Limit: 2, Members: []string{"x", "y"}}}
	mine := driver.Lease{Request: r, Token: 17}
	var err error
	switch op % 12 {
	case 8:
		err = x.s.Release(x.t.Context(), mine)
		if still, _ := x.holds(); err == nil {
			assert.True(x.t, held && !still)
		}
	case 9:
		got := renew(x.t, x.s, mine)[0]
		assert.Equal(x.t, held && len(record) > 5 && strings.HasPrefix(record[1:], " 17 ") && record[0] >= 'a' && record[0] <= 'z', got == renewal.Renewed, "%q", record)
	case 10:
		_, err = x.s.Inspect(x.t.Context(), "k")
		assert.Equal(x.t, before, x.dump())
	case 11:
		err = x.s.ForceRelease(x.t.Context(), "k")
	default:
		err = x.acquire(r, op%12 >= 4, held)
	}
	if kind == 3 && op%12 != 9 { // the key of the lock is a list
		require.Error(x.t, err)
		assert.Equal(x.t, before, x.dump())
	}
}

func (x *foreignSharedState) acquire(r driver.Request, queue, held bool) error {
	last, _ := x.rdb.Get(x.t.Context(), x.k.token).Uint64()
	var place time.Duration
	if queue {
		place = x.s.place(r.TTL)
	}
	a, err := x.s.sendAcquire(x.t.Context(), r, place)
	now, _ := x.holds()
	switch {
	case err != nil:
		assert.True(x.t, held || !now, "the store returned an error, but the owner has a lease: %v", err)
	case a.verdict == granted:
		assert.True(x.t, held || a.token > last)
		assert.Equal(x.t, []renewal.Outcome{renewal.Renewed}, renew(x.t, x.s, driver.Lease{Request: r, Token: a.token}))
	case !held:
		assert.False(x.t, now, "the store reports other holders, but the owner has a lease")
	}
	return err
}
