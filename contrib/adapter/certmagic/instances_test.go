package certmagiclock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	certmagiclock "github.com/leasewheel/leasewheel/contrib/adapter/certmagic"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// TestTwoInstancesGetOneCertificate lets two instances ask for the same certificate. The second
// one waits for the lock and then finds the certificate of the first one.
func TestTwoInstancesGetOneCertificate(t *testing.T) {
	client := processes(t, shared.Server(t))
	a, b := client(), client()
	ca := &authority{T: t, issuing: make(chan int), before: func(int) error {
		waits := func() bool {
			info, err := a.Inspect(context.Background(), key)
			return err == nil && info.Held == 1 && info.Waiting == 1
		}
		assert.Eventually(t, waits, timeout, pause, "the other instance waits for the lock")
		return nil
	}}
	files := t.TempDir()
	var instances sync.WaitGroup
	for _, client := range []*lock.Client{a, b} {
		config := newInstance(t, files, client, ca, nil)
		instances.Go(func() { assert.NoError(t, config.ObtainCertSync(t.Context(), domain)) })
	}
	assert.Equal(t, 1, <-ca.issuing)
	instances.Wait()
	assert.Equal(t, 1, ca.count())
	for range a.List(t.Context(), "") {
		assert.Fail(t, "a lock is left")
	}
}

// TestManagedCertificates lets two instances manage the same domains.
func TestManagedCertificates(t *testing.T) {
	client := processes(t, shared.Server(t))
	ca := &authority{T: t}
	files := t.TempDir()
	var instances sync.WaitGroup
	for range 3 {
		config := newInstance(t, files, client(), ca, nil)
		instances.Go(func() {
			assert.NoError(t, config.ManageSync(t.Context(), []string{domain}))
		})
	}
	instances.Wait()
	assert.Equal(t, 1, ca.count())
}

func TestStorageIsCleanedByOneInstanceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		files := certmagic.FileStorage{Path: t.TempDir()}
		clean := func(ctx context.Context) error {
			storage := certmagiclock.Wrap(lockless{&files, t}, newClient(t, connection{store}), nil)
			return certmagic.CleanStorage(ctx, storage, certmagic.CleanStorageOptions{Logger: zap.NewNop()})
		}
		held, err := newClient(t, connection{store}).Mutex("certmagic/storage_clean").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.ErrorContains(t, clean(ctx), `certmagiclock: lock "storage_clean": lock: "certmagic/storage_clean": not acquired`)
		require.NoError(t, held.Unlock(t.Context()))
		assert.NoError(t, clean(t.Context()))
	})
}

// TestTheLockIsLostWhileAnIssuerWorks shows what a loss looks like: certmagic works on, the log
// has a warning, and the error of Unlock is the loss.
func TestTheLockIsLostWhileAnIssuerWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var log record
		ca := &authority{T: t, before: func(int) error {
			store.Delete(key)
			time.Sleep(time.Minute) // the issuer is slow
			assert.Contains(t, log.String(), "certmagiclock: lock lost; certmagic works on without it")
			assert.Contains(t, log.String(), "name="+name)
			return nil
		}}
		config := newInstance(t, t.TempDir(), newClient(t, store), ca, &certmagiclock.Options{Logger: log.logger()})
		assert.NoError(t, config.ObtainCertSync(t.Context(), domain))
		assert.Equal(t, 1, strings.Count(log.String(), "\n"))
	})
}

// TestTheNextTryLocksAgain loses the lock during the first try, which fails. certmagic makes the
// next one a minute later, under a new lock.
func TestTheNextTryLocksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		ca := &authority{T: t, before: func(call int) error {
			if call == 1 {
				store.Delete(key)
				return errors.New("the issuer fails")
			}
			assert.Equal(t, 1, store.Len(), "the second try has the lock")
			return nil
		}}
		config := newInstance(t, t.TempDir(), newClient(t, connection{store}), ca, nil)
		assert.NoError(t, config.ObtainCertAsync(t.Context(), domain))
		assert.Equal(t, 2, ca.count())
		assert.Zero(t, store.Len())
	})
}

// TestATryWaitsForTheInstanceThatHasTheLock loses the lock during the first try to another
// instance, which gets the certificate. The first one makes no try as long as the other one is
// at it, and then finds its certificate.
func TestATryWaitsForTheInstanceThatHasTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		other := make(chan struct{})
		ca := &authority{T: t}
		files := t.TempDir()
		a := newInstance(t, files, newClient(t, connection{store}), ca, nil)
		b := newInstance(t, files, newClient(t, connection{store}), ca, nil)
		ca.before = func(call int) error {
			if call == 2 {
				time.Sleep(10 * time.Minute)
				return nil
			}
			store.Delete(key)
			close(other)
			return errors.New("the issuer fails")
		}
		var instances sync.WaitGroup
		instances.Go(func() {
			<-other
			time.Sleep(time.Second) // the first try has ended, and the next one begins in a minute
			assert.NoError(t, b.ObtainCertSync(t.Context(), domain))
		})
		instances.Go(func() { assert.NoError(t, a.ObtainCertAsync(t.Context(), domain)) })
		instances.Wait()
		assert.Equal(t, 2, ca.count())
		assert.Zero(t, store.Len())
	})
}
