import Model
import Partitions
import Quotas
import Testing

@testable import Routing

@Suite("A change of a device's push service")
struct TransportQuotaTests {
    @Test("takes a token of the project's subscription changes, and is refused where there is none")
    func charged() {
        let harness = RouterHarness()
        let device = harness.device(1, 1)
        let transport = Transport(kind: .fcm, address: Array("token".utf8))
        let most = QuotaLimits.standard.subscriptionChanges.burst
        for number in 0..<most {
            let isEnd = number % 2 == 1
            harness.submit(
                isEnd
                    ? .endTransport(device, by: .backend, .fcm)
                    : .setTransport(device, by: .backend, transport),
                ticket: number)
            harness.reply(Int(number), .done)
        }
        #expect(harness.finished.count == Int(most))
        let operations: [Operation] = [
            .setTransport(device, by: .backend, transport), .endTransport(device, by: .backend, .fcm),
        ]
        for (index, operation) in operations.enumerated() {
            let ticket = most + UInt64(index)
            harness.submit(operation, ticket: ticket)
            guard case .refused(.quota(let refusal))? = harness.finished[ticket] else {
                Issue.record("a change beyond the quota went on: \(operation)")
                continue
            }
            #expect(refusal.kind == .subscriptionChanges)
        }
        // What changes nothing is not charged.
        harness.submit(.device(device, by: .backend), ticket: most + 2)
        #expect(harness.asked.count == Int(most) + 1)
    }
}
