"""Client quotas: limits on bytes, request time, mutations and connections (KIP-13, 124, 257, 546, 599, 612).

`limits` finds the limit for a user and a client id, and with it the clients that share a measurement; `measurements`
keep the usage; `charge` charges one request and returns for how long its connection is to be muted (KIP-219);
`mutations` does so for partition mutations at the active controller, `connection_rates` for new connections. This
package knows no connections: its callers mute, delay and close them.

Source: ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager and ConnectionQuotas of Apache
Kafka 4.3.
"""
