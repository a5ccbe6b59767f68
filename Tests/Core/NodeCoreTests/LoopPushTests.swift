import Model
import Partitions
import Testing

@testable import NodeCore

/// What a loop tells its partitions of push services (rule: pushes-read-the-log).
@Suite("A loop tells its partitions")
struct LoopPushTests {
    private static func services(web: Bool = false, fcm: Bool = false) -> PushServices {
        var services = PushServices()
        (services.web, services.fcm) = (web, fcm)
        return services
    }

    private func known(_ harness: LoopHarness) -> [ProjectNumber: PushServices]? {
        harness.core.partitions[LoopHarness.partition]?.pushServices
    }

    @Test("which services their projects have: before they begin, and with each change")
    func services() {
        let (first, other) = (LoopPushTests.services(web: true), LoopPushTests.services(fcm: true))
        let harness = LoopHarness { $0.pushServices = [ProjectNumber(1): first] }
        harness.serve()
        #expect(known(harness) == [ProjectNumber(1): first])
        harness.turn(.pushesChanged([ProjectNumber(2): other]))
        #expect(known(harness) == [ProjectNumber(1): first, ProjectNumber(2): other])
        harness.turn(.pushesChanged([ProjectNumber(1): PushServices()]))
        harness.turn(.order(.drop(LoopHarness.partition)))
        harness.serve()
        #expect(known(harness) == [ProjectNumber(1): PushServices(), ProjectNumber(2): other])
    }

    @Test("which services refuse a project's key: those that are there, and those that begin later")
    func refusedKeys() {
        let harness = LoopHarness { $0.pushes.failuresMax = 1 }
        harness.serve()
        let transport = Transport(kind: .fcm, address: FCMAddress(token: "t").packed)
        func refuse() {
            let job = PushJob(
                number: 1, project: LoopHarness.project, device: DeviceIndex(1), transport: transport,
                registered: WallTime(milliseconds: 0), generation: 1, event: [],
                expires: WallTime(milliseconds: 1), tries: 0)
            harness.core.push(job, of: LoopHarness.partition)
            harness.turn()
        }
        func keys() -> [PushOrigin: MonotonicTime]? {
            harness.core.partitions[LoopHarness.partition]?.refusedKeys
        }
        refuse()
        harness.turn(.pushed(1, .credentials("no")))
        let until = harness.host.monotonic.advanced(by: .seconds(60))
        let expected = [PushOrigin(LoopHarness.project, transport): until]
        #expect(keys() == expected)
        harness.core.partitions[LoopHarness.partition]?.refusedKeys = [:]
        let broken = harness.core.brokenInvariant
        #expect(broken == "partition 2 does not know which services refuse a project's key")
        harness.core.partitions[LoopHarness.partition]?.refusedKeys = expected.merging(
            [PushOrigin(ProjectNumber(9), transport): until]) { $1 }
        #expect(harness.core.brokenInvariant == "partition 2 takes a key for refused that is not")
        harness.core.partitions[LoopHarness.partition]?.refusedKeys = expected
        harness.turn(.order(.drop(LoopHarness.partition)))
        harness.serve()
        #expect(keys() == expected)
        harness.turn(.pushesChanged([LoopHarness.project: PushServices()]))
        #expect(keys() == [:])
    }

    @Test("nothing where nobody tells the loop")
    func untold() {
        let harness = LoopHarness()
        harness.serve()
        harness.turn(.pushesChanged([ProjectNumber(1): LoopPushTests.services(web: true)]))
        #expect(harness.core.partitions[LoopHarness.partition] != nil && known(harness) == nil)
    }
}
