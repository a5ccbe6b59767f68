import CCurl
import Glibc
import Synchronization

/// An HTTP client for push services: POST over HTTP/2 or HTTP/1.1 with TLS 1.2 or later, by libcurl, on its
/// own thread.
///
/// The client checks each address that it connects to, follows no redirect, uses no proxy, keeps no cookie,
/// and sends no request twice. All requests to one origin share connections, so a service that binds a
/// connection to one credential, as Apple's APNs does, needs another client (`APNsClient`). The client is
/// shared fairly between projects (`PushHTTPRequest.share`).
public final class PushClient: Sendable {
    private let inbox: ClientInbox
    private let onAnswer: @Sendable ([PushHTTPAnswer]) -> Void
    private let thread: Mutex<pthread_t?>

    /// - Parameter onAnswer: called on the client's thread with the answers of one turn, one or more.
    public init(
        settings: PushClientSettings = PushClientSettings(),
        onAnswer: @escaping @Sendable ([PushHTTPAnswer]) -> Void
    ) throws(PushClientError) {
        guard PushClient.libcurl == CURLE_OK else {
            throw PushClientError(description: "libcurl cannot begin: \(PushClient.libcurl)")
        }
        let multi = try MultiHandle()
        let inbox = ClientInbox(multi)
        self.inbox = inbox
        self.onAnswer = onAnswer
        do throws(PushClientError) {
            thread = Mutex(
                try PushClient.start {
                    Worker(multi, inbox: inbox, settings: settings, onAnswer: onAnswer).run()
                })
        } catch {
            curl_multi_cleanup(multi.raw)
            throw error
        }
    }

    /// Each request gets exactly one answer. After `stop`, `onAnswer` is called on the caller's thread.
    public func submit(_ requests: [PushHTTPRequest]) {
        guard !requests.isEmpty, !inbox.post(requests) else { return }
        onAnswer(requests.map { $0.notTried("the client has stopped") })
    }

    /// Fails all requests that are not answered, closes all connections, and waits for the thread's end.
    /// `onAnswer` must never call this.
    public func stop() {
        inbox.stop()
        thread.withLock { thread in
            guard let known = thread else { return }
            thread = nil
            pthread_join(known, nil)
        }
    }

    deinit {
        inbox.stop()
        thread.withLock { thread in
            guard let known = thread else { return }
            // The last reference may go away in a closure on the client's thread, which cannot wait for
            // itself.
            if pthread_equal(known, pthread_self()) != 0 {
                pthread_detach(known)
            } else {
                pthread_join(known, nil)
            }
        }
    }

    /// libcurl begins once in a process (curl_global_init(3)).
    private static let libcurl = curl_global_init(Int(CURL_GLOBAL_DEFAULT))

    private final class Start {
        let body: () -> Void
        init(_ body: @escaping () -> Void) { self.body = body }
    }

    private static func start(_ body: @escaping @Sendable () -> Void) throws(PushClientError) -> pthread_t {
        var thread = pthread_t()
        let start = Unmanaged.passRetained(Start(body))
        // The thread, and the threads in which libcurl resolves names, leave all signals to other threads.
        var (all, former) = (sigset_t(), sigset_t())
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &former)
        defer { pthread_sigmask(SIG_SETMASK, &former, nil) }
        let code = pthread_create(
            &thread, nil,
            { context in
                // This gives back the one retain that `start` made, exactly once.
                if let context { Unmanaged<Start>.fromOpaque(context).takeRetainedValue().body() }
                return nil
            }, start.toOpaque())
        guard code == 0 else {
            start.release()
            throw PushClientError(
                description: "no thread for the push client: \(String(cString: strerror(code)))")
        }
        return thread
    }
}

extension PushHTTPRequest {
    func failed(_ reason: String, mayHaveArrived: Bool) -> PushHTTPAnswer {
        PushHTTPAnswer(number: number, result: .failed(reason: reason, mayHaveArrived: mayHaveArrived))
    }
    func notTried(_ reason: String) -> PushHTTPAnswer {
        PushHTTPAnswer(number: number, result: .notTried(reason: reason))
    }
}
