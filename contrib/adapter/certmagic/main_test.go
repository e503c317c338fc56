package certmagiclock_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	certmagiclock "github.com/leasewheel/leasewheel/contrib/adapter/certmagic"
	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	domain = "example.com"
	name   = "issue_cert_example.com" // of the lock
	key    = "certmagic/issue_cert_example.com"
)

// lockless is the file storage of certmagic, whose own locks are not expected to be used.
type lockless struct {
	*certmagic.FileStorage
	*testing.T
}

func (l lockless) Lock(context.Context, string) error            { return l.used() }
func (l lockless) TryLock(context.Context, string) (bool, error) { return false, l.used() }
func (l lockless) Unlock(context.Context, string) error          { return l.used() }
func (l lockless) String() string                                { return l.FileStorage.String() }

func (l lockless) used() error {
	l.Error("the locks of the files are used")
	return nil
}

// newInstance returns a certmagic that shares its files with others.
func newInstance(t *testing.T, files string, client *lock.Client, issuer certmagic.Issuer, o *certmagiclock.Options) *certmagic.Config {
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	t.Cleanup(cache.Stop)
	storage := certmagiclock.Wrap(lockless{&certmagic.FileStorage{Path: files}, t}, client, o)
	config = certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: []certmagic.Issuer{issuer}, Logger: zap.NewNop()})
	return config
}

// authority issues certificates. Issue calls before with the number of the call.
type authority struct {
	*testing.T
	before func(call int) error

	mu    sync.Mutex // guards calls and busy
	calls int
	busy  int
}

func (*authority) IssuerKey() string { return "authority" }

func (a *authority) Issue(_ context.Context, r *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	a.mu.Lock()
	a.calls++
	a.busy++
	call := a.calls
	assert.Equal(a, 1, a.busy, "two instances get a certificate at a time")
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.busy--
		a.mu.Unlock()
	}()
	if err := a.before(call); err != nil {
		return nil, err
	}
	return issue(r.PublicKey, r.DNSNames)
}

// count returns the number of calls so far.
func (a *authority) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls
}

func issue(public crypto.PublicKey, names []string) (*certmagic.IssuedCertificate, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// record is a log in memory.
type record struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *record) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

// pausing is a store whose locks take half a second if their ctx is slow.
type pausing struct{ adaptertest.Process }

// slow is the key of the value of a slow ctx.
type slow struct{}

func (p pausing) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	if ctx.Value(slow{}) != nil {
		time.Sleep(time.Second / 2)
	}
	return p.Process.Wait(ctx, r, queued)
}
