package tusdlock_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	tusdlock "github.com/leasewheel/leasewheel/contrib/adapter/tusd"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

const half, rest = "the first half, ", "and the rest"

// upload is an upload whose first half has come to instance a, over a connection that stands still.
// The instances share its storage. tusd waits 60 s for the body, and 20 s for a lock.
type upload struct {
	*testing.T
	a, b     *httptest.Server
	client   *lock.Client // of b
	id, file string
	cancel   context.CancelFunc // of the request that stands still
	response <-chan string      // its
}

func newUpload(t *testing.T) *upload {
	folder, prefix := t.TempDir(), fmt.Sprintf("%s-%d:", t.Name(), time.Now().UnixNano())
	start := func() (*httptest.Server, *lock.Client) {
		store, err := redisstore.New(shared.Server(t).Client(t), &redisstore.Options{Prefix: prefix})
		require.NoError(t, err)
		client := adaptertest.NewClient(t, store, lock.Terms{TTL: 3 * time.Second})
		composer := handler.NewStoreComposer()
		filestore.New(folder).UseIn(composer)
		tusdlock.New(client, nil).UseIn(composer)
		h, err := handler.NewHandler(handler.Config{StoreComposer: composer, BasePath: "/files/", GracefulRequestCompletionTimeout: 1})
		require.NoError(t, err)
		server := httptest.NewServer(http.StripPrefix("/files/", h))
		t.Cleanup(server.Close)
		return server, client
	}
	u := &upload{T: t}
	u.a, _ = start()
	u.b, u.client = start()
	created, _ := u.do(t.Context(), u.a, http.MethodPost, 0, nil)
	require.Equal(t, http.StatusCreated, created.StatusCode)
	u.id = path.Base(created.Header.Get("Location"))
	u.file = filepath.Join(folder, u.id)

	body, send := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	response := make(chan string, 1)
	u.cancel, u.response = cancel, response
	context.AfterFunc(ctx, func() { _ = send.CloseWithError(context.Canceled) })
	go func() {
		_, text := u.do(ctx, u.a, http.MethodPatch, 0, body)
		response <- text
	}()
	_, err := io.WriteString(send, half)
	require.NoError(t, err)
	u.eventually(func() bool { return u.content() == half })
	return u
}

// do sends a request about the upload, and returns the response and its text. If there is none, the
// text is the error.
func (u *upload) do(ctx context.Context, to *httptest.Server, method string, offset int, body io.Reader) (*http.Response, string) {
	r, err := http.NewRequestWithContext(ctx, method, to.URL+"/files/"+u.id, body)
	assert.NoError(u, err)
	r.Header.Set("Tus-Resumable", "1.0.0")
	if method == http.MethodPost {
		r.Header.Set("Upload-Length", strconv.Itoa(len(half+rest)))
	} else {
		r.Header.Set("Upload-Offset", strconv.Itoa(offset))
		r.Header.Set("Content-Type", "application/offset+octet-stream")
	}
	response, err := to.Client().Do(r)
	if err != nil {
		return &http.Response{}, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	assert.NoError(u, err)
	return response, string(text)
}

func (u *upload) content() string {
	content, err := os.ReadFile(u.file)
	assert.NoError(u, err)
	return string(content)
}

func (u *upload) eventually(holds func() bool) {
	assert.Eventually(u, holds, 15*time.Second, 10*time.Millisecond)
}

// isInterrupted waits for the end of the request that stands still.
func (u *upload) isInterrupted() {
	assert.Contains(u, <-u.response, handler.ErrUploadInterrupted.ErrorCode)
}

func (u *upload) sendRest(to *httptest.Server) {
	r, text := u.do(u.Context(), to, http.MethodPatch, len(half), strings.NewReader(rest))
	assert.Equal(u, http.StatusNoContent, r.StatusCode, text)
	assert.Equal(u, half+rest, u.content())
}

func TestAnUploadMoves(t *testing.T) {
	t.Run("HEAD and PATCH to another instance", func(t *testing.T) {
		u := newUpload(t)
		r, _ := u.do(t.Context(), u.b, http.MethodHead, 0, nil)
		assert.Equal(t, http.StatusOK, r.StatusCode)
		assert.Equal(t, strconv.Itoa(len(half)), r.Header.Get("Upload-Offset"))
		u.isInterrupted()
		u.sendRest(u.b)
	})
	t.Run("PATCH to another instance", func(t *testing.T) {
		u := newUpload(t)
		u.sendRest(u.b)
		u.isInterrupted()
	})
	t.Run("PATCH to the same instance", func(t *testing.T) {
		u := newUpload(t)
		u.sendRest(u.a)
		u.isInterrupted()
	})
}

func TestACancelledUploadReleasesItsLock(t *testing.T) {
	u := newUpload(t)
	u.cancel()
	u.eventually(func() bool {
		info, err := u.client.Inspect(t.Context(), "tusd/"+u.id)
		return err == nil && info.Held == 0
	})
	u.sendRest(u.b)
}

func TestAnUploadThatLosesItsLockEnds(t *testing.T) {
	u := newUpload(t)
	require.NoError(t, u.client.ForceRelease(t.Context(), "tusd/"+u.id))
	u.isInterrupted()
	u.sendRest(u.b)
}
