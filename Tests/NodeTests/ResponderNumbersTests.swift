import Model
import Testing

@testable import FCMAPI
@testable import Node

@Suite("A number that stands for something") struct ResponderNumbersTests {
    @Test(
        "gives a request's generation and slot again",
        arguments: [(0, 0), (7, 3), (UInt32.max, 70_000)] as [(UInt32, Int)])
    func tickets(generation: UInt32, slot: Int) {
        let made = TicketID(generation: generation, slot: slot)
        let read = TicketID(number: made.number)
        #expect(read.generation == generation && read.slot == slot)
    }

    @Test("gives a stream's project and key again", arguments: [UInt32(0), 5, ProjectNumber.limit - 1])
    func owners(project: UInt32) {
        for key in [UInt8(0), 1, 255] {
            let device = Registration(
                project: ProjectNumber(project), partition: PartitionID(3), index: DeviceIndex(9), nonce: 77,
                key: key)
            for isEventSource in [false, true] {
                let listen = ListenRequest(
                    registration: device, credential: DeviceMAC(high: 1, low: 2), resume: nil,
                    isEventSource: isEventSource)
                let read = StreamOwner(number: StreamOwner(listen).number)
                #expect(read.project == ProjectNumber(project) && read.key == key)
                #expect(read.isEventSource == isEventSource)
            }
        }
    }
}
