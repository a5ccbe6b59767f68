import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Carries requests to the server. Tests have one without sockets.
protocol Transport: Sendable {
    /// Calls `done` once, on any queue.
    func send(_ request: URLRequest, _ done: @escaping @Sendable (TransportAnswer) -> Void)
    /// Opens a stream and calls `heard` in order, until `ended` or `cancel`.
    func open(
        _ request: URLRequest, _ heard: @escaping @Sendable (StreamBytes) -> Void
    ) -> any TransportStream
    /// Ends all requests.
    func close()
}

protocol TransportStream: Sendable { func cancel() }

enum TransportAnswer: Sendable {
    case answered(status: Int, retryAfter: String?, body: Data)
    case failed(String)
}

enum StreamBytes: Sendable {
    case opened
    case bytes(Data)
    /// The answer is not 200 with a stream of events, and this is all of it.
    case refused(status: Int, retryAfter: String?, body: Data)
    case ended(String)
}

/// The transport of an app: one `URLSession`. Its delegate collects the answers of calls and passes on the
/// bytes of streams, because `bytes(for:)` is not on Linux.
///
/// Redirections are refused: some systems send the device's credential along to the next host.
final class SessionTransport: NSObject, Transport {
    private let session: URLSession
    /// The tasks that run, shared between the app's calls and the delegate's queue.
    private let tasks = TaskTable()
    /// Streams have their own session: see `open`.
    private let streamSession: URLSession
    private let streamTasks = TaskTable()

    override init() {
        session = SessionTransport.session(tasks)
        streamSession = SessionTransport.session(streamTasks)
        super.init()
    }

    private static func session(_ tasks: TaskTable) -> URLSession {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieAcceptPolicy = .never
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        configuration.timeoutIntervalForRequest = Wire.timeout
        // A stream lasts as long as the app.
        configuration.timeoutIntervalForResource = 86_400 * 365
        configuration.httpMaximumConnectionsPerHost = Machine.callsMax + 2
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        return URLSession(
            configuration: configuration, delegate: SessionDelegate(tasks: tasks), delegateQueue: queue)
    }

    func close() {
        session.invalidateAndCancel()
        streamSession.invalidateAndCancel()
    }

    func send(_ request: URLRequest, _ done: @escaping @Sendable (TransportAnswer) -> Void) {
        let task = session.dataTask(with: request)
        tasks.insert(task.taskIdentifier, .call(done))
        task.resume()
    }

    func open(
        _ request: URLRequest, _ heard: @escaping @Sendable (StreamBytes) -> Void
    ) -> any TransportStream {
        let stream = SessionStream(streamSession, streamTasks)
        #if canImport(FoundationNetworking)
            // On Linux, a session that has connected for a request goes on waiting until it may write to the
            // socket. It always may, so the session takes a whole processor until the request has ended. A
            // request on a connection that is there does not. So a short request makes the stream's
            // connection.
            stream.start(
                SessionTransport.opener(for: request),
                .call { answer in
                    switch answer {
                    case .answered: stream.start(request, .stream(heard))
                    case .failed(let reason): heard(.ended(reason))
                    }
                })
        #else
            stream.start(request, .stream(heard))
        #endif
        return stream
    }

    /// A request to the same server that costs the server next to nothing; any answer will do.
    static func opener(for request: URLRequest) -> URLRequest {
        var parts = request.url.flatMap { URLComponents(url: $0, resolvingAgainstBaseURL: false) }
        parts?.percentEncodedPath = "/healthz"
        parts?.percentEncodedQuery = nil
        guard let url = parts?.url else { return request }
        return URLRequest(
            url: url, cachePolicy: .reloadIgnoringLocalCacheData, timeoutInterval: openerTimeout)
    }

    /// The server answers immediately. While no answer comes, a session on Linux takes a whole processor.
    private static let openerTimeout: TimeInterval = 10
}

/// A stream, with the requests that it takes one after the other.
// Safe, because `lock` guards both variables.
private final class SessionStream: TransportStream, @unchecked Sendable {
    private let lock = NSLock()
    private var task: URLSessionDataTask?
    private var isCancelled = false
    private let session: URLSession
    private let tasks: TaskTable

    init(_ session: URLSession, _ tasks: TaskTable) {
        self.session = session
        self.tasks = tasks
    }

    func start(_ request: URLRequest, _ receiver: RunningTask.Receiver) {
        lock.withLock {
            guard !isCancelled else { return }
            let next = session.dataTask(with: request)
            tasks.insert(next.taskIdentifier, receiver)
            next.resume()
            task = next
        }
    }

    func cancel() {
        let last = lock.withLock {
            isCancelled = true
            return task
        }
        guard let last else { return }
        _ = tasks.remove(last.taskIdentifier)
        last.cancel()
    }
}

/// One running task: its receiver, and what has arrived.
private struct RunningTask: Sendable {
    enum Receiver: Sendable {
        case call(@Sendable (TransportAnswer) -> Void)
        case stream(@Sendable (StreamBytes) -> Void)
    }
    var receiver: Receiver
    var status: Int?
    /// Whether the body is a stream of events: another machine's page is none.
    var isEvents = false
    var retryAfter: String?
    var body = Data()

    /// Open streams pass their bytes on; all other bodies are collected.
    var isStanding: Bool {
        if case .stream = receiver { status == 200 && isEvents } else { false }
    }
}

/// A table behind a lock. Each call holds the lock for a moment, and calls nobody meanwhile.
private final class TaskTable: @unchecked Sendable {  // Safe, because `lock` guards the only variable.
    private let lock = NSLock()
    private var running: [Int: RunningTask] = [:]

    func insert(_ id: Int, _ receiver: RunningTask.Receiver) {
        lock.withLock { running[id] = RunningTask(receiver: receiver) }
    }
    func remove(_ id: Int) -> RunningTask? { lock.withLock { running.removeValue(forKey: id) } }
    func change(_ id: Int, _ body: (inout RunningTask) -> Void) -> RunningTask? {
        lock.withLock {
            guard var task = running[id] else { return nil }
            body(&task)
            running[id] = task
            return task
        }
    }
}

private final class SessionDelegate: NSObject, URLSessionDataDelegate {
    /// The longest body of an answer. The longest that the server gives is a page of 2,000 topics with names
    /// of 900 bytes, each of them twice.
    static let bodyBytesMax = 8 << 20

    private let tasks: TaskTable

    init(tasks: TaskTable) { self.tasks = tasks }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        let answer = response as? HTTPURLResponse
        let task = tasks.change(dataTask.taskIdentifier) {
            $0.status = answer?.statusCode
            $0.isEvents = answer?.mimeType?.lowercased() == "text/event-stream"
            $0.retryAfter = answer?.value(forHTTPHeaderField: "Retry-After")
        }
        if let task, task.isStanding, case .stream(let heard) = task.receiver { heard(.opened) }
        completionHandler(task == nil ? .cancel : .allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        let task = tasks.change(dataTask.taskIdentifier) { if !$0.isStanding { $0.body += data } }
        guard let task else { return }
        if task.isStanding {
            if case .stream(let heard) = task.receiver { heard(.bytes(data)) }
        } else if task.body.count > SessionDelegate.bodyBytesMax {
            dataTask.cancel()
        }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        guard let ended = tasks.remove(task.taskIdentifier) else { return }
        let reason = error.map { $0.localizedDescription } ?? "The connection ended."
        switch ended.receiver {
        case .call(let done):
            if error == nil, let status = ended.status {
                done(.answered(status: status, retryAfter: ended.retryAfter, body: ended.body))
            } else {
                done(.failed(reason))
            }
        case .stream(let heard):
            if error == nil, let status = ended.status, !ended.isStanding {
                heard(.refused(status: status, retryAfter: ended.retryAfter, body: ended.body))
            } else {
                heard(.ended(reason))
            }
        }
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask,
        willPerformHTTPRedirection response: HTTPURLResponse, newRequest request: URLRequest,
        completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}
