package redisstore

import (
	"cmp"
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// The rights in the package comment.
const (
	rightsOfAStore  = "+evalsha +eval +get +mget +set +del +exists +time +pttl +pexpire +llen +lpop +lrem +zcard +zscore +zrem"
	rightsOfWaiters = "+rpush +lindex +zadd +zrangebyscore"
	rightsOfSignals = "+publish +subscribe +unsubscribe +ping"
	rightToInspect  = "+lrange"
	rightToList     = "+scan"
	rightToExplain  = "+info"

	rightsOfSharing = "+zadd +zcount +zrange +zrangebyscore +zrevrange +zscan +pexpireat +hget +hset +hdel +hlen +hmget +hscan +unlink"

	rightsOnACluster = "+cluster|slots +asking"
)

func TestThePackageCommentNamesTheRights(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	text := regexp.MustCompile(`[\s/]+`).ReplaceAllString(string(doc), " ")
	for _, rights := range []string{
		"-@all " + rightsOfAStore, rightsOfWaiters, rightsOfSignals, rightsOfSharing, rightsOnACluster, "[Store.Inspect] needs " + rightToInspect,
		"[Store.List] needs " + rightToList, "With " + rightToExplain + ", [Store.List] notices",
	} {
		assert.Contains(t, text, rights)
	}
}

// The table in SECURITY.md has a row for each purpose.
func TestTheSecurityPageNamesTheRights(t *testing.T) {
	page, err := os.ReadFile("../../SECURITY.md")
	require.NoError(t, err)
	for purpose, rights := range map[string]string{
		"everything except waiting": rightsOfAStore, "waiting": rightsOfWaiters, "messages about hand-overs": rightsOfSignals,
		"`Store.Inspect` and `Store.ForceRelease`": rightToInspect,
	} {
		assert.Contains(t, string(page), "\n| "+purpose+" | `"+rights+"` |\n")
	}
	_, row, found := strings.Cut(string(page), "\n| shared locks, in addition to the first two rows | `")
	require.True(t, found)
	row, _, _ = strings.Cut(row, "`")
	first := strings.Fields(rightsOfAStore + " " + rightsOfWaiters)
	for right := range strings.FieldsSeq(rightsOfSharing) {
		assert.Contains(t, append(strings.Fields(row), first...), right)
	}
	for right := range strings.FieldsSeq(row) {
		assert.Contains(t, strings.Fields(rightsOfSharing), right)
	}
	_, line, _ := strings.Cut(string(page), "    ACL SETUSER ")
	line, _, _ = strings.Cut(line, "\n")
	for right := range strings.FieldsSeq(strings.Join([]string{rightsOfAStore, rightsOfWaiters, rightsOfSignals, rightsOfSharing, rightToExplain}, " ")) {
		assert.Contains(t, strings.Fields(line), right)
	}
}

func TestTheDocumentedRightsAreSufficientAndNecessary(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	x := &exercise{t: t, srv: srv, admin: srv.Client(t)}
	if !hasUsers(t, x.admin) {
		t.Skip("there are no rights before Redis 6")
	}
	require.NoError(t, x.asUser(rightsOfAStore, x.store))
	require.NoError(t, x.asUser(rightsOfAStore+" "+rightsOfWaiters, x.waiter), "waiters get the lock without signals")
	all := rightsOfAStore + " " + rightsOfWaiters + " " + rightsOfSignals
	require.NoError(t, x.asUser(all, x.signalled))
	for right := range strings.SplitSeq("+publish +subscribe", " ") {
		require.Error(t, x.asUser(without(all, right), x.signalled), "%s is not necessary", right)
	}
	require.NoError(t, x.asUser(rightsOfAStore+" "+rightToInspect, x.inspector))
	require.Error(t, x.asUser(rightsOfAStore, x.inspector))
	require.NoError(t, x.asUser(rightsOfAStore+" "+rightToList, x.lister))
	require.Error(t, x.asUser(rightsOfAStore, x.lister))
	for right := range strings.SplitSeq(rightsOfAStore, " ") {
		require.Error(t, x.asUser(without(rightsOfAStore, right), x.store), "%s is not necessary", right)
	}
	for right := range strings.SplitSeq(rightsOfWaiters, " ") {
		require.Error(t, x.asUser(rightsOfAStore+" "+without(rightsOfWaiters, right), x.waiter), "%s is not necessary", right)
	}
}

// hasUsers reports whether the server has ACLs.
func hasUsers(t *testing.T, admin *redis.Client) bool {
	return !redis.HasErrorPrefix(admin.Do(t.Context(), "acl", "whoami").Err(), "unknown command")
}

// limited returns a client of a user with exactly the documented rights. If the server has no
// ACLs, it returns admin.
func limited(t *testing.T, admin *redis.Client) *redis.Client {
	all := strings.Join([]string{rightsOfAStore, rightsOfWaiters, rightsOfSignals, rightsOfSharing, rightToInspect, rightToList}, " ")
	user := testredis.ChannelRules(append([]any{"acl", "setuser", "limited", "reset", "on", ">pw", "~lw:*", "&lw:*", "-@all"}, fields(all)...)...)
	err := admin.Do(t.Context(), user...).Err()
	if redis.HasErrorPrefix(err, "unknown command") { // before Redis 6
		return admin
	}
	require.NoError(t, err)
	rdb := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: "limited", Password: "pw", DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func without(rights, right string) string {
	return strings.TrimSpace(strings.ReplaceAll(" "+rights+" ", " "+right+" ", " "))
}

var errNoError = errors.New("this should have been refused")

// exercise does everything that needs a list of rights.
type exercise struct {
	t     *testing.T
	srv   *testredis.Server
	admin *redis.Client

	rights string             // of the user
	calls  *testredis.Counter // of the store
}

// asUser calls do with a store of a user who has the rights, and returns its error.
func (x *exercise) asUser(rights string, do func(s *Store, rdb *redis.Client) error) error {
	ctx := x.t.Context()
	x.rights, x.calls = rights, new(testredis.Counter)
	user := testredis.ChannelRules(append([]any{"acl", "setuser", "limited", "reset", "on", ">pw", "~lw:*", "&lw:*", "-@all"}, fields(rights)...)...)
	require.NoError(x.t, x.admin.Do(ctx, user...).Err())
	require.NoError(x.t, x.admin.FlushDB(ctx).Err())
	require.NoError(x.t, x.admin.ScriptFlush(ctx).Err())
	rdb := redis.NewClient(&redis.Options{Addr: x.srv.Addr(), Username: "limited", Password: "pw", DisableIdentity: true})
	defer rdb.Close()
	s, err := New(rdb, &Options{Place: time.Hour, Instrument: x.calls.Attach})
	require.NoError(x.t, err)
	defer s.Close()
	return do(s, rdb)
}

func fields(rights string) (list []any) {
	for f := range strings.FieldsSeq(rights) {
		list = append(list, f)
	}
	return list
}

func (x *exercise) store(s *Store, _ *redis.Client) error {
	ctx := x.t.Context()
	r := request("k")
	l, err := s.Acquire(ctx, r)
	if err != nil {
		return err
	}
	if _, err := s.Acquire(ctx, r); err != nil {
		return err
	}
	if _, err := s.Acquire(ctx, request("k")); !errors.Is(err, driver.ErrNotAcquired) {
		return cmp.Or(err, errNoError)
	}
	out := make([]renewal.Outcome, 2)
	if err := s.Renew(ctx, []driver.Lease{l, {Request: request("k"), Token: 1}}, out); err != nil {
		return err
	}
	assert.Equal(x.t, []renewal.Outcome{renewal.Renewed, renewal.LostTaken}, out)
	if err := x.handOver(ctx, s, l); err != nil {
		return err
	}
	if err := s.Release(ctx, driver.Lease{Request: request("k"), Unanswered: true}); !errors.Is(err, driver.ErrNotHeld) {
		return cmp.Or(err, errNoError)
	}
	l, err = s.Acquire(ctx, request("other"))
	if err != nil {
		return err
	}
	return s.Release(ctx, l)
}

// handOver releases a lock for which another owner waits.
func (x *exercise) handOver(ctx context.Context, s *Store, l driver.Lease) error {
	waiter := request(l.Key)
	enqueue(x.t, s, x.admin, waiter)
	if err := s.Release(ctx, l); err != nil {
		return err
	}
	assert.Contains(x.t, x.admin.Get(ctx, s.lockKey(l.Key)).Val(), waiter.Owner)
	return nil
}

// waiter waits for a lock without signals.
func (x *exercise) waiter(s *Store, _ *redis.Client) error {
	ctx := x.t.Context()
	l, err := s.Acquire(ctx, request("k"))
	if err != nil {
		return err
	}
	for range 2 {
		if _, err := s.sendAcquire(ctx, request("k"), time.Second); err != nil {
			return err
		}
	}
	return s.Release(ctx, l)
}

// signalled waits for a lock with signals only, because its polls come too late. A waiter sends two requests:
// one joins the queue, and one follows when the subscription is confirmed.
func (x *exercise) signalled(s *Store, _ *redis.Client) error {
	ctx, cancel := context.WithCancel(x.t.Context())
	defer cancel()
	holder, err := s.Acquire(ctx, request("k"))
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Wait(ctx, requestFor("k", time.Hour), func() {})
		done <- err
	}()
	for queued := int64(0); queued == 0; time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-done:
			return cmp.Or(err, errNoError)
		default:
			queued = x.admin.ZCard(x.t.Context(), s.keys("k", "").places).Val()
		}
	}
	if strings.Contains(x.rights, "+subscribe") {
		requests := 1 + 2
		require.Eventually(x.t, func() bool { return x.calls.Returned(acquireScript.Digest()) == requests }, long, time.Millisecond)
	}
	if err := s.Release(ctx, holder); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-time.After(3 * time.Second):
		cancel()
		return cmp.Or(<-done, errNoError)
	}
}

func (x *exercise) inspector(s *Store, _ *redis.Client) error {
	ctx := x.t.Context()
	if _, err := s.Acquire(ctx, request("k")); err != nil {
		return err
	}
	if _, err := s.Inspect(ctx, "k"); err != nil {
		return err
	}
	return s.ForceRelease(ctx, "k")
}

func (x *exercise) lister(s *Store, _ *redis.Client) error {
	_, _, err := s.List(x.t.Context(), "", "")
	return err
}

func TestTheDocumentedRightsOfSharedLocks(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	x := &exercise{t: t, srv: srv, admin: srv.Client(t)}
	if !hasUsers(t, x.admin) {
		t.Skip("there are no rights before Redis 6")
	}
	all := rightsOfAStore + " " + rightsOfSharing
	require.NoError(t, x.asUser(all, x.sharer))
	for right := range strings.SplitSeq(rightsOfSharing, " ") {
		require.Error(t, x.asUser(without(all, right), x.sharer), "%s is not necessary", right)
	}
}

// sharer uses locks of all modes in every way, without signals.
func (x *exercise) sharer(s *Store, _ *redis.Client) error {
	ctx := x.t.Context()
	for _, r := range allModes("k")[1:] {
		first, err := s.Acquire(ctx, r)
		if err != nil {
			return err
		}
		out := make([]renewal.Outcome, 1)
		if err := s.Renew(ctx, []driver.Lease{first}, out); err != nil {
			return err
		}
		assert.Equal(x.t, renewal.Renewed, out[0])
		waiter := r
		waiter.Owner = request("").Owner
		if r.Mode == driver.Read {
			waiter.Mode = driver.Write
		}
		// This is the state after a queue in which some places have expired.
		require.NoError(x.t, x.admin.HSet(ctx, s.sharedKeys(r.Key, "").records, "an expired owner", "w 0 0 ").Err())
		if _, err := s.sendAcquire(ctx, waiter, ttl30); err != nil {
			return err
		}
		if err := s.Release(ctx, first); err != nil {
			return err
		}
		if err := s.ForceRelease(ctx, r.Key); err != nil {
			return err
		}
	}
	return nil
}
