// Package recipes has short functions that use locks with libraries that have no interface for a lock, or one that
// cannot report a loss. Copy what you need; the tests of this package run them.
//
// # asynq
//
// [Schedule]: only one scheduler may enqueue the periodic tasks. After a crash of its process the next one begins up to
// a TTL later.
//
// # goose
//
// [Migrate]: the lockers of goose are for PostgreSQL and MySQL, and cannot stop a migration whose lock is lost. A lock
// of any store excludes the processes, and its loss ends the migration.
//
// # River
//
// [WorkAlone]: River elects the leader of its periodic jobs itself. A lock excludes jobs that work on the same thing.
//
// # Watermill
//
// [OneAtATime]: a consumer group does not keep two messages of one order apart if they are delivered twice or come from
// two topics. The middleware does. The Deduplicator of Watermill is for messages that are the same.
//
// # Kubernetes
//
// Package k8slock in the folder contrib/adapter/k8s elects the leader of a controller.
package recipes
