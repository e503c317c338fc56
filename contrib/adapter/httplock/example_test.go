package httplock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/leasewheel/leasewheel/contrib/adapter/httplock"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// Each order is shipped by one request at a time, in all replicas of the service.
func Example() {
	client, err := lock.New(memstore.New(), nil) // in a service: a redisstore
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ship := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "shipping", r.PathValue("id"), "under a lock:", httplock.Held(r.Context()).Valid())
	})
	oneAtATime := httplock.New(client, func(r *http.Request) string { return "order/" + r.PathValue("id") }, nil)
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/ship", oneAtATime(ship))

	post := func() {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/7/ship", nil))
		fmt.Print(answer.Code, " ", answer.Body)
	}
	post()
	held, err := client.Mutex("order/7").Lock(context.Background()) // as another replica does
	if err != nil {
		fmt.Println(err)
		return
	}
	post()
	fmt.Println(held.Unlock(context.Background()))
	// Output:
	// 200 shipping 7 under a lock: true
	// 409 another request has the lock
	// <nil>
}
