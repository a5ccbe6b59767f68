import Journal

/// What all nodes of a cluster share. Created with the cluster, and the same in each copy of its database.
package struct ClusterSecrets {
    /// 16 random bytes that name the cluster.
    package let id: [UInt8]
    /// 32 random bytes.
    package let key: [UInt8]

    /// From what HKDF derives a key.
    package struct Derivation: Hashable, Sendable {
        package let secret: [UInt8]
        package let salt: [UInt8]
        package let info: [UInt8]
    }

    package enum Purpose: String {
        /// The cluster's name between nodes.
        case name = "tidecast cluster 1"
        /// The key that seals gossip.
        case gossip = "tidecast gossip 1"
    }

    package static func made(_ engine: any Engine, _ vault: Vault) throws -> ClusterSecrets {
        ClusterSecrets(
            id: try Catalog.made(.setting, "cluster-id", engine: engine, vault: vault) {
                try Catalog.random(16)
            },
            key: try Catalog.made(.setting, Catalog.gossipSetting, engine: engine, vault: vault) {
                try Catalog.random(32)
            })
    }

    /// A copy of the database holds the same secrets, and its nodes must neither believe the original's nodes
    /// nor be believed by them. So each key comes from the life too (rule: copies-are-strangers).
    package func derivation(of purpose: Purpose, life: [UInt8]) -> Derivation {
        Derivation(secret: key, salt: id, info: Array(purpose.rawValue.utf8) + life)
    }
}
