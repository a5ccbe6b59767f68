import Foundation
import Testing

@testable import TidecastMessaging

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Answers each call by its path, and keeps the stream that is open.
private final class FakeTransport: Transport, @unchecked Sendable {  // Safe: `lock` guards all variables.
    private struct Stream: TransportStream { func cancel() {} }
    private let lock = NSLock()
    private var heard: (@Sendable (StreamBytes) -> Void)?
    private var paths: [String] = []
    private var early: [StreamBytes] = []

    var asked: [String] { lock.withLock { paths } }

    func send(_ request: URLRequest, _ done: @escaping @Sendable (TransportAnswer) -> Void) {
        let path = request.url?.path ?? ""
        lock.withLock { paths.append(path) }
        var body = "{}"
        if path.hasSuffix("/registrations") { body = #"{"token": "f:p", "credential": "c"}"# }
        if path.hasSuffix("/many:subscribe") {
            body = #"{"error": {"details": [{"errorCode": "TOO_MANY_TOPICS"}]}}"#
            return done(.answered(status: 400, retryAfter: nil, body: Data(body.utf8)))
        }
        done(.answered(status: 200, retryAfter: nil, body: Data(body.utf8)))
    }

    func open(
        _ request: URLRequest, _ heard: @escaping @Sendable (StreamBytes) -> Void
    ) -> any TransportStream {
        let waiting = lock.withLock {
            self.heard = heard
            defer { early = [] }
            return early
        }
        for bytes in [.opened] + waiting { heard(bytes) }
        return Stream()
    }

    func say(_ text: String) {
        let bytes = StreamBytes.bytes(Data(text.utf8))
        let heard = lock.withLock {
            if self.heard == nil { early.append(bytes) }
            return self.heard
        }
        heard?(bytes)
    }

    func close() {}
}

private final class MemoryStorage: Storage, @unchecked Sendable {  // Safe: `lock` guards all variables.
    private let lock = NSLock()
    private var state: ClientState?
    private var registrations = Registrations()
    private var error: MessagingError?

    func refuse(_ error: MessagingError?) { lock.withLock { self.error = error } }
    func load() throws -> (state: ClientState?, registrations: Registrations) {
        lock.withLock { (state, registrations) }
    }
    func store(_ state: ClientState, isUrgent: Bool) throws {
        try lock.withLock {
            if let error { throw error }
            self.state = state
        }
    }
    func store(_ registrations: Registrations) throws {
        try lock.withLock {
            if let error { throw error }
            self.registrations = registrations
        }
    }
}

@Suite("The client that an app uses") struct MessagingTests {
    private static func client(
        _ transport: FakeTransport = FakeTransport(), _ storage: MemoryStorage = MemoryStorage()
    ) throws -> Messaging {
        try Messaging(
            MessagingOptions(server: "https://push.example.com", project: "demo"), storage: storage,
            transport: transport)
    }

    @Test("gives the token, subscribes, and has stored the wish when the call returns")
    func calls() async throws {
        let transport = FakeTransport()
        let storage = MemoryStorage()
        let client = try MessagingTests.client(transport, storage)
        #expect(try await client.token() == "f:p")
        client.subscribe(toTopic: "noted", completion: nil)
        #expect(try storage.load().state?.wishes["noted"]?.isWanted == true)
        try await client.subscribe(toTopic: "/topics/news")
        #expect(client.topics == ["news", "noted"])
        #expect(
            transport.asked.contains("/v1/projects/demo/registrations/f/topicSubscriptions/news:subscribe"))
        try await client.unsubscribe(fromTopic: "news")
        #expect(client.topics == ["noted"])
        try await client.deleteToken()
        #expect(client.fcmToken == nil)
    }

    @Test("has Firebase's errors in Firebase's domain")
    func errors() async throws {
        let client = try MessagingTests.client()
        let name = await #expect(throws: MessagingError.self) { try await client.subscribe(toTopic: "a b") }
        #expect(name?.code == .invalidTopicName && name?.errorCode == 8)
        #expect(MessagingError.errorDomain == "com.google.fcm")
        let many = await #expect(throws: MessagingError.self) { try await client.subscribe(toTopic: "many") }
        #expect(many?.code == .tooManyTopics)
    }

    @Test("tells a caller whose change is confirmed and not stored of the storage's error")
    func notStored() async throws {
        let storage = MemoryStorage()
        let client = try MessagingTests.client(FakeTransport(), storage)
        try await client.subscribe(toTopic: "news")
        storage.refuse(MessagingError(.storage, "full"))
        let error = await #expect(throws: MessagingError.self) {
            try await client.unsubscribe(fromTopic: "news")
        }
        #expect(error?.code == .storage && error?.message.contains("full") == true)
        #expect(client.topics == [])
        storage.refuse(nil)
        while try storage.load().state?.wishes["news"] != nil { try await Task.sleep(for: .milliseconds(50)) }
    }

    @Test("gives completions on the main queue")
    func completions() async throws {
        let client = try MessagingTests.client()
        let key = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: key, value: true)
        let isMain = await withCheckedContinuation { continuation in
            client.subscribe(toTopic: "news") { _ in
                continuation.resume(returning: DispatchQueue.getSpecific(key: key))
            }
        }
        #expect(isMain == true)
    }

    @Test("gives messages in a loop, and counts one as handled when the loop asks for the next")
    func messages() async throws {
        let transport = FakeTransport()
        let storage = MemoryStorage()
        let client = try MessagingTests.client(transport, storage)
        for number in 1...3 {
            transport.say(
                "id: e\(number)\ndata: {\"messageId\":\"m\(number)\",\"from\":\"/topics/a\"}\n\n")
        }
        var names: [String] = []
        for await message in client.messages {
            names.append(message.messageID)
            let position = try storage.load().state?.position
            #expect(position == (names.count == 1 ? nil : "e\(names.count - 1)"))
            if names.count == 3 { break }
        }
        #expect(names == ["m1", "m2", "m3"])
        #expect(try storage.load().state?.position == "e2", "a loop that is left has not handled the last")
    }

    @Test("ends a loop whose task is cancelled, and a waiting call, which leaves its wish")
    func cancelled() async throws {
        let client = try MessagingTests.client()
        let loop = Task { for await _ in client.messages {} }
        loop.cancel()
        await loop.value
        let call = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await client.subscribe(toTopic: "news")
        }
        await #expect(throws: CancellationError.self) { try await call.value }
        #expect(client.topics == ["news"])
    }

    @Test("tells its delegate of the token, also one that the app sets late")
    @MainActor func delegate() async throws {
        final class Delegate: MessagingDelegate {
            let heard: AsyncStream<String?>.Continuation
            init(_ heard: AsyncStream<String?>.Continuation) { self.heard = heard }
            func messaging(_ messaging: Messaging, didReceiveRegistrationToken fcmToken: String?) {
                heard.yield(fcmToken)
            }
        }
        let client = try MessagingTests.client()
        _ = try await client.token()
        // The client has told nobody yet: its word stands in the main queue before what comes now.
        #expect(client.fcmToken == "f:p")
        await withCheckedContinuation { waiting in DispatchQueue.main.async { waiting.resume() } }
        let (tokens, continuation) = AsyncStream.makeStream(of: String?.self)
        let delegate = Delegate(continuation)
        client.delegate = delegate
        var iterator = tokens.makeAsyncIterator()
        #expect(await iterator.next() == "f:p")
        try await client.deleteToken()
        #expect(await iterator.next() == .some(nil))
    }

    @Test("keeps the token of Apple's push service")
    func address() throws {
        var options = try MessagingOptions(server: "https://push.example.com", project: "demo")
        options.bundleID = "org.example.app"
        let transport = FakeTransport()
        let client = try Messaging(options, storage: MemoryStorage(), transport: transport)
        #expect(client.apnsToken == nil)
        client.setAPNSToken(Data([0x0A, 0xFF]), type: .sandbox)
        #expect(client.apnsToken == Data([0x0A, 0xFF]))
        client.apnsToken = nil
        #expect(client.apnsToken == nil)
        #expect(client.appDidReceiveMessage([:]).status == .unknown)
        #expect(client.appDidReceiveMessage(["a": "b"]).status == .new)
    }
}
