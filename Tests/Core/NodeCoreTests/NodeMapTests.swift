import Model
import Partitions
import Testing

@testable import NodeCore

@Suite("The map of a node") struct NodeMapTests {
    @Test("keeps every project's buckets in the home database")
    func buckets() {
        for databases in 1...5 {
            let map = NodeMap(partitionCount: 32, databaseCount: databases)
            for number in 0..<500 {
                let home = map.home(of: ProjectNumber(UInt32(number)))
                #expect(map.database(of: home) == 0 && map.contains(home))
            }
        }
    }

    @Test("names a gateway by its process and its loop")
    func gateways() {
        let gateway = GatewayID(processID: 0xAB_CDEF, loop: 7)
        #expect(gateway.processID == 0xAB_CDEF && gateway.loop == 7)
    }
}
