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
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// The rights that the package comment names.
const (
	rightsOfAStore  = "+evalsha +eval +get +mget +set +del +exists +time +pttl +pexpire +llen +lpop +lrem +zcard +zscore +zrem"
	rightsOfWaiters = "+rpush +lindex +zadd +zrangebyscore"
	rightsOfSignals = "+publish +subscribe +unsubscribe +ping"
	rightToInspect  = "+lrange"

	rightsOfSharing = "+zadd +zcount +zrange +zrangebyscore +zrevrange +pexpireat +hget +hset +hdel +hlen +hkeys +hmget +unlink"

	rightsOnACluster = "+cluster|slots +asking"
)

func TestTheRightsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	text := regexp.MustCompile(`[\s/]+`).ReplaceAllString(string(doc), " ")
	for _, rights := range []string{
		"-@all " + rightsOfAStore, rightsOfWaiters, rightsOfSignals, rightsOfSharing, rightsOnACluster, "[Store.Inspect]: " + rightToInspect,
	} {
		assert.Contains(t, text, rights)
	}
}

func TestTheRightsSufficeAndNoneIsTooMany(t *testing.T) {
	srv := testredis.Start(t)
	x := &exercise{t: t, srv: srv, admin: srv.Client(t)}
	if !hasUsers(t, x.admin) {
		t.Skip("there are no rights before Redis 6")
	}
	require.NoError(t, x.asUser(rightsOfAStore, x.store))
	require.NoError(t, x.asUser(rightsOfAStore+" "+rightsOfWaiters, x.waiter), "waiters are served without signals")
	all := rightsOfAStore + " " + rightsOfWaiters + " " + rightsOfSignals
	require.NoError(t, x.asUser(all, x.signalled))
	for right := range strings.SplitSeq("+publish +subscribe", " ") {
		require.Error(t, x.asUser(without(all, right), x.signalled), "%s is not needed", right)
	}
	require.NoError(t, x.asUser(rightsOfAStore+" "+rightToInspect, x.inspector))
	require.Error(t, x.asUser(rightsOfAStore, x.inspector))
	for right := range strings.SplitSeq(rightsOfAStore, " ") {
		require.Error(t, x.asUser(without(rightsOfAStore, right), x.store), "%s is not needed", right)
	}
	for right := range strings.SplitSeq(rightsOfWaiters, " ") {
		require.Error(t, x.asUser(rightsOfAStore+" "+without(rightsOfWaiters, right), x.waiter), "%s is not needed", right)
	}
}

// hasUsers tells whether a server knows users and their rights.
func hasUsers(t *testing.T, admin *redis.Client) bool {
	return !redis.HasErrorPrefix(admin.Do(t.Context(), "acl", "whoami").Err(), "unknown command")
}

// limited returns a client of a user who has all rights that are needed and no other,
// or the admin's where there are no users.
func limited(t *testing.T, admin *redis.Client) *redis.Client {
	all := strings.Join([]string{rightsOfAStore, rightsOfWaiters, rightsOfSignals, rightsOfSharing, rightToInspect}, " ")
	user := append([]any{"acl", "setuser", "limited", "reset", "on", ">pw", "~lw:*", "-@all"}, fields(all)...)
	err := admin.Do(t.Context(), user...).Err()
	if redis.HasErrorPrefix(err, "unknown command") { // before Redis 6
		return admin
	}
	require.NoError(t, err)
	_ = admin.Do(t.Context(), "acl", "setuser", "limited", "&lw:*") // unknown before Redis 6.2
	rdb := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: "limited", Password: "pw", DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func without(rights, right string) string {
	return strings.TrimSpace(strings.ReplaceAll(" "+rights+" ", " "+right+" ", " "))
}

var errNoError = errors.New("this should have been refused")

// exercise does all that a kind of user does.
type exercise struct {
	t     *testing.T
	srv   *testredis.Server
	admin *redis.Client
}

// asUser returns the first failure of a user with some rights.
func (x *exercise) asUser(rights string, do func(s *Store, rdb *redis.Client) error) error {
	ctx := x.t.Context()
	user := append([]any{"acl", "setuser", "limited", "reset", "on", ">pw", "~lw:*", "-@all"}, fields(rights)...)
	require.NoError(x.t, x.admin.Do(ctx, user...).Err())
	_ = x.admin.Do(ctx, "acl", "setuser", "limited", "&lw:*") // unknown before Redis 6.2, where all channels are free
	require.NoError(x.t, x.admin.FlushDB(ctx).Err())
	require.NoError(x.t, x.admin.ScriptFlush(ctx).Err())
	rdb := redis.NewClient(&redis.Options{Addr: x.srv.Addr(), Username: "limited", Password: "pw", DisableIdentity: true})
	defer rdb.Close()
	s, err := New(rdb, nil)
	require.NoError(x.t, err)
	defer s.Close()
	return do(s, s.one.rdb)
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
	if _, err := s.Acquire(ctx, request("k")); !errors.Is(err, lock.ErrNotAcquired) {
		return cmp.Or(err, errNoError)
	}
	out := make([]renewal.Outcome, 2)
	if err := s.Renew(ctx, []lock.Lease{l, {Request: request("k"), Token: 1}}, out); err != nil {
		return err
	}
	assert.Equal(x.t, []renewal.Outcome{renewal.Renewed, renewal.Lost}, out)
	if err := x.passOn(ctx, s, l); err != nil {
		return err
	}
	if err := s.Release(ctx, lock.Lease{Request: request("k"), Unanswered: true}); !errors.Is(err, lock.ErrNotHeld) {
		return cmp.Or(err, errNoError)
	}
	l, err = s.Acquire(ctx, request("other"))
	if err != nil {
		return err
	}
	return s.Release(ctx, l)
}

// passOn releases a lock that another waits for.
func (x *exercise) passOn(ctx context.Context, s *Store, l lock.Lease) error {
	waiter := request(l.Key)
	enqueue(x.t, s, x.admin, waiter)
	if err := s.Release(ctx, l); err != nil {
		return err
	}
	assert.Contains(x.t, x.admin.Get(ctx, s.lockKey(l.Key)).Val(), waiter.Owner)
	return nil
}

// waiter does what one does without signals.
func (x *exercise) waiter(s *Store, _ *redis.Client) error {
	ctx := x.t.Context()
	l, err := s.Acquire(ctx, request("k"))
	if err != nil {
		return err
	}
	for range 2 {
		if _, err := s.ask(ctx, request("k"), time.Second); err != nil {
			return err
		}
	}
	return s.Release(ctx, l)
}

// signalled is a waiter that no poll helps.
func (x *exercise) signalled(s *Store, _ *redis.Client) error {
	ctx, cancel := context.WithTimeout(x.t.Context(), 3*time.Second)
	defer cancel()
	holder, err := s.Acquire(ctx, request("k"))
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Wait(ctx, requestFor("k", time.Hour))
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
	time.Sleep(300 * time.Millisecond) // the subscription, if it may have one, is on
	if err := s.Release(ctx, holder); err != nil {
		return err
	}
	return <-done
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
