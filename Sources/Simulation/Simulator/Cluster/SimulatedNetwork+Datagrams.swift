import Model
import NodeCore

// Datagrams between the processes of a cluster.

extension SimulatedNetwork {
    /// How many of 1,000 datagrams are lost. More than 20 is a fault, and ends with the other faults.
    private var lostPerMille: UInt64 {
        world.isHealing ? min(20, world.options.lostDatagramsPerMille) : world.options.lostDatagramsPerMille
    }

    /// Sends a datagram, which comes late, and may be lost or doubled; over a cut it is lost.
    func send(datagram packet: [UInt8], from: SimulatedProcess, to address: String) {
        guard let machine = world.machine(at: address), machine != from.machine,
            !isCut(from.machine, machine), !world.chance(lostPerMille)
        else { return }
        let name = from.address
        let datagram = SentDatagram(packet, to: machine, key: from.key)
        for _ in 0..<(world.chance(lostPerMille) ? 2 : 1) {
            world.after(latency(from.machine, machine), .network) { self.hand(datagram, from: name) }
        }
        replay(after: datagram, from: name)
    }

    /// An eavesdropper may repeat a datagram that it recorded, from another address, soon or much later.
    private func replay(after datagram: SentDatagram, from name: String) {
        guard world.options.replayedPerMille > 0, !world.isHealing else { return }
        heard.hear(datagram, world.roll)
        guard world.chance(world.options.replayedPerMille) else { return }
        let old = heard.any(world.roll)
        world.after(world.roll(.seconds(2)), .network) { self.hand(old, from: name) }
    }

    private func hand(_ datagram: SentDatagram, from name: String) {
        guard let process = world.process(on: datagram.to) else { return }
        world.after(.zero, .arrived, process: process) {
            guard datagram.key == process.key else {
                return self.world.count("datagrams between lives refused")
            }
            let before = process.refusedDatagrams
            process.handle(.datagram(datagram.bytes, from: name))
            guard process.refusedDatagrams == before else { return self.world.count("datagrams refused") }
            guard datagram.taken.insert(UInt64(process.processID.rawValue)).inserted else {
                return self.world.violate("gossip", "a process believed a datagram twice")
            }
        }
    }
}
