#!/usr/bin/env bash
# Runs a command beside a one-node Slurm of its own: ci/slurm.sh cargo test -p tilewright --test plan_command
#
# Needs root and Debian's packages slurm-wlm and munge. Everything lives in a temporary folder and ends with the command.
# Without them it says so and exits with 77.
set -euo pipefail

for program in munged slurmctld slurmd sbatch; do
    command -v "$program" >/dev/null || { echo "no $program: apt-get install slurm-wlm munge" >&2; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "a Slurm of one's own needs root" >&2; exit 77; }

folder=$(mktemp -d /tmp/slurm.XXXXXX)
daemons=()
finish() {
    for daemon in "${daemons[@]}"; do kill "$daemon" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
mkdir -m 755 -p "$folder"/{state,spool,munge}
chmod 755 "$folder"

head -c 1024 /dev/urandom >"$folder/munge/key"
chmod 400 "$folder/munge/key"
munged --foreground --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
    --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" &
daemons+=($!)

host=$(hostname -s)
cat >"$folder/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CryptoType=crypto/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/ctld.pid
SlurmdPidFile=$folder/d.pid
SlurmctldPort=26817
SlurmdPort=26818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
touch "$folder/cgroup.conf"
export SLURM_CONF=$folder/slurm.conf
slurmctld -D -i >"$folder/ctld.log" 2>&1 &
daemons+=($!)
slurmd -D >"$folder/d.log" 2>&1 &
daemons+=($!)

for _ in $(seq 100); do
    sinfo --noheader -o %t 2>/dev/null | grep -q idle && break
    sleep 0.3
done
if ! sinfo --noheader -o %t | grep -q idle; then
    tail -n 20 "$folder"/*.log "$folder/munge/log" >&2
    echo "the one-node Slurm did not come up" >&2
    exit 1
fi
"$@"
