import Model

public enum Placement {
    public static func partition(of topic: TopicName, in project: ProjectNumber, count: Int) -> PartitionID {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325 ^ UInt64(project.rawValue)
        for byte in topic.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        hash ^= hash >> 32
        return PartitionID(UInt16(hash % UInt64(count)))
    }
}
