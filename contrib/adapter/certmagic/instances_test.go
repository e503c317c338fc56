package certmagiclock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	certmagiclock "github.com/leasewheel/leasewheel/contrib/adapter/certmagic"
	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// TestTwoInstancesGetOneCertificate lets two instances ask for the same certificate. The second
// one waits for the lock and then finds the certificate of the first one.
func TestTwoInstancesGetOneCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := adaptertest.NewClient(t, adaptertest.Process{Store: store}), adaptertest.NewClient(t, adaptertest.Process{Store: store})
		ca := &authority{T: t, before: func(int) error {
			time.Sleep(time.Minute)
			info, err := a.Inspect(context.Background(), key)
			assert.NoError(t, err)
			assert.Equal(t, 1, info.Waiting, "the other instance waits for the lock")
			return nil
		}}
		files := t.TempDir()
		var instances sync.WaitGroup
		for _, client := range []*lock.Client{a, b} {
			config := newInstance(t, files, client, ca, nil)
			instances.Go(func() { assert.NoError(t, config.ObtainCertSync(t.Context(), domain)) })
		}
		instances.Wait()
		assert.Equal(t, 1, ca.count())
		assert.Zero(t, store.Len())
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
		config := newInstance(t, t.TempDir(), adaptertest.NewClient(t, store), ca, &certmagiclock.Options{Logger: log.logger()})
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
		config := newInstance(t, t.TempDir(), adaptertest.NewClient(t, adaptertest.Process{Store: store}), ca, nil)
		assert.NoError(t, config.ObtainCertAsync(t.Context(), domain))
		assert.Equal(t, 2, ca.count())
		assert.Zero(t, store.Len())
	})
}
