import Glibc
import Journal
import Model

/// What loops hand to the engine's thread. A loop never waits for more than the copy of a few pointers.
///
/// Safe: `content` is touched only between `pthread_mutex_lock` and `unlock`, and the mutex and condition
/// have fixed addresses for as long as the mailbox lives.
final class EngineMailbox: @unchecked Sendable {
    typealias Job = @Sendable (Result<any Engine, EngineError>) -> Void

    enum Command {
        case rows([Row], owner: Int)
        case session(SessionID)
        case opened(PartitionID, next: Sequence)
        case closing(PartitionID, then: @Sendable () -> Void)
    }

    struct Content {
        var commands: [Command] = []
        var jobs: [Job] = []
        var largeJobs: [Job] = []
        var isClosing = false
        /// The mailbox takes nothing in any more.
        var isEnded = false
        var isEmpty: Bool { commands.isEmpty && jobs.isEmpty && largeJobs.isEmpty }
    }

    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var content = Content()

    init() {
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(changed, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(changed)
        pthread_mutex_destroy(mutex)
        changed.deallocate()
        mutex.deallocate()
    }

    /// Changes the content and wakes the threads that wait for it.
    func post<Result>(_ change: (inout Content) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer {
            pthread_cond_broadcast(changed)
            pthread_mutex_unlock(mutex)
        }
        return change(&content)
    }

    /// Waits until `ready` holds, or until a moment of the monotonic clock, then looks at the content or
    /// takes from it.
    func wait<Result>(
        until ready: (Content) -> Bool, orUntil moment: MonotonicTime? = nil,
        _ take: (inout Content) -> Result
    ) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while !ready(content) {
            guard let moment else {
                pthread_cond_wait(changed, mutex)
                continue
            }
            var time = timespec(
                tv_sec: Int(moment.nanoseconds / 1_000_000_000),
                tv_nsec: Int(moment.nanoseconds % 1_000_000_000))
            if pthread_cond_timedwait(changed, mutex, &time) != 0 { break }
        }
        return take(&content)
    }
}
