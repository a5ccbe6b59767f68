import PushClient
import PushStandIn
import Synchronization
import Testing

/// A client under test, with what it answered.
final class Sender: Sendable {
    let client: PushClient
    private let news: AsyncStream<Void>
    private let box = Box()

    private final class Box: Sendable {
        let answers = Mutex<[PushHTTPAnswer]>([])
    }

    init(_ change: (inout PushClientSettings) -> Void = { _ in }) throws {
        var settings = PushClientSettings()
        change(&settings)
        let (news, teller) = AsyncStream.makeStream(of: Void.self)
        client = try PushClient(settings: settings) { [box] answers in
            box.answers.withLock { $0 += answers }
            teller.yield()
        }
        self.news = news
    }

    /// All answers so far, in the order in which they came.
    var all: [PushHTTPAnswer] { box.answers.withLock { $0 } }

    /// Waits until there are `count` answers in all, or until the test has taken too long.
    func answers(_ count: Int) async -> [PushHTTPAnswer] {
        var iterator = news.makeAsyncIterator()
        while all.count < count, await iterator.next() != nil {}
        return all
    }

    /// Sends one request, and waits for its answer. Nothing else may be under way.
    func answer(_ request: PushHTTPRequest) async throws -> PushHTTPAnswer.Result {
        let count = all.count
        client.submit([request])
        return try #require(await answers(count + 1).last).result
    }
}

extension StandIn {
    /// - Parameter streamsMax: streams of a connection at once, which the stand-in's SETTINGS say.
    static func start(
        _ version: Version, host: String = "localhost", streamsMax: UInt32 = 100,
        reply: @escaping @Sendable (ReceivedRequest) -> Reply
    ) async throws -> StandIn {
        try await start(reply: reply) {
            $0.version = version
            $0.host = host
            ($0.streams, $0.raised) = (streamsMax, nil)
        }
    }

    func url(_ path: String) -> String { "https://localhost:\(port)\(path)" }

    /// A request to this stand-in, which trusts its authority.
    func request(
        _ number: UInt64 = 1, path: String = "/push", fields: [(String, String)] = [("TTL", "60")],
        body: [UInt8] = [1, 2, 3], mayDial: @escaping @Sendable ([UInt8]) -> Bool = { _ in true }
    ) -> PushHTTPRequest {
        PushHTTPRequest(number: number, url: url(path), caPEM: caPEM, mayDial: mayDial) {
            (fields: fields, body: body)
        }
    }
}

extension PushHTTPAnswer.Result {
    var status: Int? {
        if case .answered(let status, _, _) = self { return status }
        return nil
    }
    var isUntried: Bool {
        if case .notTried = self { return true }
        return false
    }
    var failure: (reason: String, mayHaveArrived: Bool)? {
        if case .failed(let reason, let mayHaveArrived) = self { return (reason, mayHaveArrived) }
        return nil
    }
}
