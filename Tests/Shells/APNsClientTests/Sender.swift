import APNsClient
import PushScheduling
import PushStandIn
import Synchronization
import Testing

/// A client under test, with what it answered and told.
final class Sender: Sendable {
    let client: APNsClient
    private let changed: AsyncStream<Void>
    private let box = Box()

    private final class Box: Sendable {
        let answers = Mutex<[APNsResponse]>([])
        let news = Mutex<[APNsNews]>([])
    }

    init(_ change: (inout APNsClientSettings) -> Void = { _ in }) {
        var settings = APNsClientSettings()
        settings.backoffMin = .milliseconds(20)
        settings.connectSpacing = .milliseconds(10)
        // However slow this machine is, a pool makes no further connection.
        settings.loadWait = .seconds(3600)
        change(&settings)
        let (changed, teller) = AsyncStream.makeStream(of: Void.self)
        client = APNsClient(settings: settings) { [box] answers in
            box.answers.withLock { $0 += answers }
            teller.yield()
        } onNews: { [box] _, news in
            box.news.withLock { $0.append(news) }
            teller.yield()
        }
        self.changed = changed
    }

    /// All answers so far, in the order in which they came.
    var all: [APNsResponse] { box.answers.withLock { $0 } }
    var news: [APNsNews] { box.news.withLock { $0 } }

    /// Waits until there are `count` answers in all.
    @discardableResult
    func answers(_ count: Int) async -> [APNsResponse] {
        var iterator = changed.makeAsyncIterator()
        while all.count < count, await iterator.next() != nil {}
        return all
    }

    /// Sends one request, and waits for its answer. Nothing else may be under way.
    func answer(_ request: APNsRequest) async throws -> APNsResponse {
        let count = all.count
        client.submit([request])
        return try #require(await answers(count + 1).last)
    }
}

/// Waits for a condition that another thread brings about.
func wait(until holds: () -> Bool) async throws {
    while !holds() { try await Task.sleep(for: .milliseconds(5)) }
}

extension ReceivedRequest {
    /// What stands behind `/3/device/`.
    var device: String { String(path.dropFirst("/3/device/".count)) }
}

extension StandIn {
    func pool(key: String = "KEY0000001", host: String = "localhost") -> APNsPool {
        APNsPool(host: host, port: port, caPEM: caPEM, teamID: "TEAM000001", keyID: key)
    }

    func request(
        _ number: UInt64 = 1, device: String = "00", pool: APNsPool? = nil,
        fields: [(name: String, value: String)] = [("apns-topic", "com.example.app")],
        body: [UInt8] = Array("{\"aps\":{}}".utf8)
    ) -> APNsRequest {
        APNsRequest(number: number, pool: pool ?? self.pool(), path: "/3/device/\(device)") {
            (fields: fields, body: body)
        }
    }

    func requests(_ numbers: Range<UInt64>) -> [APNsRequest] {
        numbers.map { request($0, device: String($0)) }
    }

    /// Devices in the order in which their requests came.
    var devices: [String] { seen.requests.map(\.device) }
}

extension APNsResponse {
    var status: Int? {
        if case .answered(let status, _, _) = result { return status }
        return nil
    }
    var notSent: String? {
        if case .notSent(let reason) = result { return reason }
        return nil
    }
    var failure: String? {
        if case .failed(let reason) = result { return reason }
        return nil
    }
    var notPrepared: String? {
        if case .notPrepared(let error) = result { return "\(error)" }
        return nil
    }
}
