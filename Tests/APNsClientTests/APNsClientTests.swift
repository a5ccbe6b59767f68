import APNsClient
import Synchronization
import Testing

@Suite("The APNs client")
struct APNsClientTests {
    @Test("answers each request once after its end")
    func stopped() throws {
        let count = Mutex(0)
        let answers = Answers()
        let client = try APNsClient { answers.add($0) }
        client.stop()
        let pool = APNsPool(host: "localhost", teamID: "ABCDE12345", keyID: "FGHIJ67890")
        client.submit([APNsRequest(number: 7, pool: pool, path: "/3/device/00") { (fields: [], body: [1]) }])
        count.withLock { $0 = answers.all.count }
        #expect(answers.all.map(\.number) == [7])
    }

    final class Answers: Sendable {
        private let box = Mutex<[APNsResponse]>([])
        var all: [APNsResponse] { box.withLock { $0 } }
        func add(_ more: [APNsResponse]) { box.withLock { $0 += more } }
    }
}
