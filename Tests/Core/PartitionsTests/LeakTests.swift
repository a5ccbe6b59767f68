import Model
import Testing

@testable import Partitions

/// Ids leak nothing (rule: ids-leak-nothing): the ids that a project's devices see do not show what others
/// do.
@Suite("Ids that leak nothing") struct LeakTests {
    /// The positions of one device's events, 1 ms apart. Between two of them `others` messages of another
    /// project go to the same partition.
    private func positions(beside others: Int) throws -> [UInt64] {
        let harness = PartitionHarness(count: 1)
        let (device, credential) = try #require(harness.register(in: 0))
        let reply = harness.request(
            .register(project: ProjectNumber(9), limit: 4096, nonce: 5, secret: 6), of: PartitionID(0))
        guard case .registered(let index, let nonce, _) = reply else { throw TestError.noDevice }
        let stranger = Registration(
            project: ProjectNumber(9), partition: PartitionID(0), index: index, nonce: nonce, key: 1)
        harness.listen(device, credential, stream: 1)
        for number in 0..<20 {
            harness.now.wall = WallTime(milliseconds: harness.now.wall.milliseconds + 1)
            _ = harness.request(.sendToDevice(nil, device, harness.envelope("\(number)")), of: PartitionID(0))
            for _ in 0..<others {
                _ = harness.request(.sendToDevice(nil, stranger, harness.envelope("x")), of: PartitionID(0))
            }
        }
        var found: [UInt64] = []
        for case .push(let push) in harness.frames {
            for item in push.items where item.targets.contains(device.index.rawValue) {
                found.append(item.position.rawValue)
            }
        }
        return found
    }

    private enum TestError: Error { case noDevice }

    @Test("have the same positions with and without the traffic of others")
    func otherTraffic() throws {
        let alone = try positions(beside: 0)
        #expect(alone.count == 20)
        #expect(try positions(beside: 3) == alone)
        #expect(try positions(beside: 40) == alone)
    }
}
